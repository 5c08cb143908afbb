//! Mistakes in containers on hosts.

use super::{Case, case, here};

pub(super) const CASES: &[Case] = &[
    case(
        "bundle = \"historian\"",
        "bundle = \"historian\"\nroot = \"image\"",
        "[system.hosts.historian.container]",
        "a container needs either a `root` or a `bundle`",
    ),
    case(
        "bundle = \"historian\"\n",
        "",
        "[system.hosts.historian.container]",
        "a container needs either a `root` or a `bundle`",
    )
    .counting(2),
    case(
        "bundle = \"historian\"",
        "image = \"historian\"",
        "image",
        "unknown key `image`",
    )
    .counting(3),
    here(
        "target = \"/var/lib/historian\"",
        "target = \"historian\"",
        "`historian` is not an absolute path",
    ),
    case(
        "source = \"data\"\n",
        "",
        "[[system.hosts.historian.container.mounts]]",
        "a mount needs `source`",
    ),
    here(
        "user = \"1000:1000\"",
        "user = \"nobody\"",
        "`nobody` is a name of this machine's, not of the container's",
    ),
    case(
        "user = \"1000:1000\"",
        "directory = \"data\"",
        "directory = \"data\"",
        "`data` is not an absolute path in the container",
    ),
    here(
        "name = \"reader\"",
        "name = \"container-historian\"",
        "a second program is called `container-historian`",
    ),
    here(
        "after = [\"container-historian\"]",
        "after = [\"container-history\"]",
        "there is no program `container-history`",
    ),
    case(
        "[placement]\ndefault = \"local\"\n",
        "[placement]\ndefault = \"far\"\nkey_file = \"key\"\n[placement.agents.far]\naddress = \"10.9.0.1:7\"\n",
        "[system.hosts.historian.container]",
        "images are not sent to agents",
    )
    .counting(2),
];
