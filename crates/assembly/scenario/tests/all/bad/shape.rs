//! Mistakes in the form of a file, and in names.

use super::{Case, case, here};

pub(super) const CASES: &[Case] = &[
    // Syntax and shape.
    here("seed = 7", "seed = = 7", "this is not valid TOML"),
    here(
        "seed = 7",
        "seed = 99999999999999999999",
        "does not fit into 64 bits",
    ),
    here(
        "seed = 7",
        "seed = -1",
        "`seed` must lie in 0 … 9223372036854775807, and -1 does not",
    ),
    here(
        "seed = 7",
        "sead = 7",
        "unknown key `sead` in a scenario; did you mean `seed`?",
    ),
    here(
        "schema = \"timeloom/1\"",
        "schema = \"timeloom/9\"",
        "does not read `timeloom/9`",
    ),
    here(
        "name = \"ieee13\"",
        "name = \"a/b\"",
        "`a/b` cannot be a scenario's name",
    ),
    here(
        "step = \"10 ms\"",
        "setp = \"10 ms\"",
        "unknown key `setp` in a plant; did you mean `step`?",
    ),
    case(
        "step = \"10 ms\"",
        "",
        "[simulation.plants.grid]",
        "a plant needs `step`",
    ),
    here(
        "essential = true",
        "essential = 1",
        "`essential` must be true or false, not a whole number",
    ),
    here("offset = 0.5", "offset = nan", "the number must be finite"),
    // Names.
    case(
        "[\"s1\", \"s2\"]\n",
        "[\"s1\", \"s2\", \"S3\"]\n",
        "switches =",
        "`S3` cannot be the name of a node",
    )
    .counting(2),
    case(
        "[\"s1\", \"s2\"]\n",
        "[\"s1\", \"s2\", \"s1\"]\n",
        "switches =",
        "a second part of the system is called `s1`",
    ),
    here(
        "name = \"sensor\"",
        "name = \"controller\"",
        "a second program is called `controller`",
    ),
    case(
        "[system.hosts.sensor]\n",
        "[system.hosts.a_very_long_name]\n[system.hosts.sensor]\n",
        "a_very_long_name",
        "`a_very_long_name` cannot be the name of a node",
    )
    .counting(3), // It has neither an address nor a link.
    here(
        "name = \"no-sag\"",
        "name = \"sag\"",
        "a second check is called `sag`",
    ),
];
