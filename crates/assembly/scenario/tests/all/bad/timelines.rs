//! Mistakes in timelines of hosts.

use super::{Case, case, here};

pub(super) const CASES: &[Case] = &[
    here(
        "sources = [{ type = \"chrony\" }, {",
        "sources = [{ type = \"sundial\" }, {",
        "unknown variant `sundial`",
    ),
    here(
        "sources = [{ type = \"chrony\" }, {",
        "sources = [{ type = \"simulated\" }, {",
        "a `simulated` source follows the host's own oscillator",
    ),
    here(
        "address = \"10.0.0.1:8319\" }]",
        "adress = \"10.0.0.1:8319\" }]",
        "unknown field `adress`",
    ),
    here(
        "accuracy = \"50 us\"",
        "accuracy = \"0 us\"",
        "`accuracy` must be above 0",
    ),
    here(
        "every = \"500 ms\"",
        "every = \"1 us\"",
        "an interval of 1 us between two records is too short",
    ),
    case(
        "poll_shortest = \"100 ms\"",
        "poll_shortest = \"11 s\"",
        "[system.hosts.sensor.timelines.plant]",
        "poll.shortest is longer than poll.longest",
    ),
    case(
        "tolerated_liars = 1",
        "tolerated_liars = 2",
        "[system.hosts.sensor.timelines.plant]",
        "tolerated_liars must be less than the number of sources",
    ),
    here(
        "[system.hosts.sensor.timelines.plant]",
        "[system.hosts.sensor.timelines.\"a b\"]",
        "`a b` is not a name of a timeline",
    ),
    here(
        "name = \"sensor\"\n",
        "name = \"timelines-sensor\"\n",
        "a second program is called `timelines-sensor`",
    ),
];
