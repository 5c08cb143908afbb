//! Mistakes in links, hosts and switches.

use super::{Case, case, here};

pub(super) const CASES: &[Case] = &[
    // Network.
    here(
        "between = [\"control\", \"s1\"]",
        "between = [\"control\", \"s7\"]",
        "`s7` is not a switch, host or device; did you mean",
    ),
    here(
        "between = [\"control\", \"s1\"]",
        "between = [\"control\"]",
        "a link joins two nodes, not 1",
    ),
    here(
        "between = [\"control\", \"s1\"]",
        "between = [\"sensor\", \"s1\"]",
        "`sensor` has a single interface and is attached already",
    ),
    case(
        "[[system.links]]\nbetween = [\"attacker\", \"s2\"]",
        "",
        "[system.hosts.attacker]",
        "`attacker` is not attached to the network",
    ),
    case(
        "[[system.links]]\nbetween = [\"s1\", \"s2\"]",
        "",
        "[system.hosts.control]",
        "no link leads from control, generator, s1 to the rest",
    )
    .counting(2), // The capture of that link is invalid, too.
    here(
        "between = [\"s1\", \"s2\"]",
        "between = [\"s1\", \"s2\"]\n[[system.links]]\nbetween = [\"s2\", \"s1\"]",
        "",
    )
    .expect_line("[\"s2\", \"s1\"]", "closes a loop"),
    here(
        "rate = \"100 Mbit/s\"",
        "rate = \"100mbit\"",
        "is not a bit rate",
    ),
    here(
        "address = \"10.0.0.2/24\"",
        "address = \"10.0.0.2\"",
        "it needs the length of the subnet's prefix",
    ),
    here(
        "address = \"10.0.0.2/24\"",
        "address = \"10.0.0.0/24\"",
        "this one names the subnet itself",
    ),
    here(
        "address = \"10.0.0.2/24\"",
        "address = \"10.0.0.1/24\" # again",
        "`sensor` and `control` have the same address",
    ),
    here(
        "address = \"10.0.0.2/24\"",
        "address = \"10.0.1.2/24\"",
        "`sensor` is not in the subnet 10.0.0.0/24",
    ),
    here(
        "address = \"10.0.0.2/24\"",
        "address = \"fd00::2\"",
        "it needs the length of the subnet's prefix, as in `fd00::2/64`",
    ),
    here(
        "address = \"10.0.0.2/24\"",
        "address = [\"10.0.0.2/24\", \"10.0.0.3/24\"]",
        "one address of IPv4 and one of IPv6 at most",
    ),
    here(
        "address = \"10.0.0.2/24\"",
        "address = []",
        "a host needs an address",
    ),
    // OpenFlow.
    here(
        "switches = [\"s2\"]",
        "switches = [\"s3\"]",
        "there is no switch `s3`",
    ),
    here(
        "switches = [\"s2\"]",
        "switches = [\"s2\", \"s2\"]",
        "`s2` is named twice",
    ),
    here(
        "switches = [\"s2\"]",
        "switches = []",
        "no switch speaks OpenFlow",
    ),
    here(
        "name = \"learning\"",
        "name = \"sensor\"",
        "a second program is called `sensor`",
    ),
    here(
        "mode = \"virtual\"",
        "mode = \"skip\"",
        "time cannot skip while Open vSwitch processes frames",
    ),
];
