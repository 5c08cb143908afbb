//! Mistakes in events during a run, and in panels of its report.

use super::{Case, case, here};

pub(super) const CASES: &[Case] = &[
    // Events.
    here(
        "host = \"attacker\"",
        "host = \"atacker\"",
        "there is no host `atacker`; did you mean `attacker`?",
    ),
    here("\"T0814\"", "\"dos\"", "`dos` is not a technique"),
    here(
        "link = [\"s2\", \"s1\"]",
        "link = [\"s2\", \"sensors\"]",
        "there is no link between `s2` and `sensors`",
    ),
    here(
        "assert = \"min(grid.bus.680.v1) < 2345 from 25 s\"",
        "assert = \"median(grid.bus.680.v1) < 2345\"",
        "`median` is not min, max, mean, first or last",
    ),
    here(
        "assert = \"min(grid.bus.680.v1) < 2345 from 25 s\"",
        "assert = \"min(grid.bus.680.v3) < 2345\"",
        "`bus.680.v3` of `grid` is not recorded; did you mean",
    ),
    here(
        "assert = \"min(grid.bus.680.v1) < 2345 from 25 s\"",
        "assert = \"min(grid.bus.680.v1) < 2345 from 95 s\"",
        "95 s is not before the end",
    ),
    here(
        "when = \"attack.dos\"\n",
        "when = \"attack.doss\"\n",
        "there is no attack `doss`; did you mean `dos`?",
    ),
    here(
        "\"bus.680.v2\"",
        "\"bus.680.v1\"",
        "`bus.680.v1` is recorded twice",
    )
    .counting(2), // The panel draws the replaced signal.
    here(
        "env = { PYTHONPATH = \"../../python\" }",
        "env = { \"\" = \"x\" }",
        "`` cannot be the name of an environment variable",
    ),
    // Changes during the run.
    here(
        "link = [\"generator\", \"s1\"]",
        "link = [\"generator\", \"s2\"]",
        "there is no link between `generator` and `s2`",
    ),
    case(
        "link = [\"generator\", \"s1\"]\nstate = \"down\"",
        "",
        "[[event]]",
        "this event changes nothing",
    ),
    case(
        "\nstate = \"down\"",
        "",
        "[[event]]",
        "the link generator-s1 does not change",
    ),
    here(
        "rate = \"10 Mbit/s\"\n\n[[event]]",
        "delay = \"10 ms\"\n\n[[event]]",
        "",
    )
    .expect_line(
        "link = [\"s1\", \"generator\"]",
        "a link of kernel parts can change only its `rate` and its `state`",
    ),
    here(
        "rate = \"10 Mbit/s\"\n\n[[event]]",
        "rate = \"7 bit/s\"\n\n[[event]]",
        "",
    )
    .expect_line(
        "link = [\"s1\", \"generator\"]",
        "the kernel has no rate below 8 bit/s",
    ),
    here("state = \"down\"", "state = \"gone\"", "`gone`"),
    here(
        "at = \"2.5 s\"",
        "at = \"95 s\"",
        "95 s is not before the end",
    ),
    here("attack = \"dos\"\naction", "attack = \"dose\"\naction", "").expect_line(
        "attack = \"dose\"",
        "there is no attack `dose`; did you mean `dos`?",
    ),
    here("action = \"stop\"", "action = \"start\"", "").expect_line(
        "attack = \"dos\"",
        "the attack `dos` begins by itself, at 22.5 s",
    ),
    case(
        "action = \"stop\"",
        "",
        "[[event]]",
        "an event of an attack needs `attack` and `action`",
    ),
    case(
        "action = \"stop\"",
        "action = \"stop\"\nlink = [\"s1\", \"s2\"]",
        "[[event]]",
        "this event changes a link and an attack",
    ),
    // Panels.
    here(
        "title = \"Voltage at bus 680\"",
        "title = \" \"",
        "a panel needs a title",
    ),
    case(
        "title = \"Voltage at bus 680\"",
        "",
        "[[panel]]",
        "a panel needs `title`",
    ),
    here(
        "{ name = \"grid.bus.680.v2\" }",
        "{ name = \"grid.bus.680.v3\" }",
        "`bus.680.v3` of `grid` is not recorded; did you mean `grid.bus.680.v",
    ),
    here(
        "{ name = \"grid.bus.680.v2\" }",
        "{ name = \"grid.vsource.source.q\" }",
        "is not recorded; add it to `record.signals` of the plant `grid`",
    ),
    here(
        "{ name = \"grid.bus.680.v2\" }",
        "{ name = \"gird.bus.680.v2\" }",
        "there is no plant `gird`; did you mean `grid`?",
    ),
    here(
        "{ name = \"grid.bus.680.v2\" }",
        "{ name = \"grid.bus.680.v1\" }",
        "`grid.bus.680.v1` is drawn twice in this panel",
    ),
    here(
        "to = 2522,",
        "to = 2200,",
        "this range ends at 2200, which is not above 2280; exchange",
    ),
    here("from = 2280,", "", "a reference needs `from`").expect_line("to = 2522", "needs `from`"),
    here(
        "{ at = 2320.0,",
        "{ line = 2320.0,",
        "unknown key `line` in a reference",
    )
    .counting(2), // It also lacks `at`.
];
