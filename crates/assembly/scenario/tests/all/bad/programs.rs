//! Mistakes in programs, plants and their devices.

use super::{Case, case, here};

pub(super) const CASES: &[Case] = &[
    // Programs.
    here(
        "run = [\"python3\", \"controller.py\"]",
        "run = []",
        "there is nothing to run",
    ),
    here(
        "run = [\"python3\", \"controller.py\"]",
        "run = \"python3 controller.py\"",
        "`run` must be a list, not a text; write `[\"python3\", \"controller.py\"]`",
    ),
    here(
        "ready = \"tcp:5000\"",
        "ready = \"udp:5000\"",
        "write `tcp:PORT` or `log:TEXT`",
    ),
    here(
        "ready = \"tcp:5000\"",
        "ready = \"tcp:70000\"",
        "`70000` is not a TCP port",
    ),
    here(
        "after = [\"controller\"]",
        "after = [\"contoller\"]",
        "there is no program `contoller`; did you mean `controller`?",
    ),
    here(
        "after = [\"controller\"]",
        "after = [\"arpspoof-a\"]",
        "belongs to an attack",
    ),
    here("ready = \"tcp:5000\"", "after = [\"sensor\"]", "").expect_line(
        "after = [\"controller\"]",
        "these wait for each other: controller → sensor → controller",
    ),
    here(
        "env = { KEY = \"value\" }",
        "env = { \"A=B\" = \"value\" }",
        "`A=B` cannot be the name of an environment variable",
    ),
    // Devices.
    here("port = 502", "port = 0", "a port must lie in 1 … 65535"),
    here("port = 502", "port = 65536", "`port` must lie in 0 … 65535"),
    here(
        "protocol = \"modbus-tcp\"",
        "protocol = \"modbus\"",
        "did you mean `modbus-tcp`?",
    ),
    here(
        "type = \"f32\"",
        "type = \"float\"",
        "`float` is not known here",
    ),
    case(
        "type = \"f32\"\n",
        "",
        "[[system.devices.generator.registers]]",
        "a register needs a `type` of its numbers",
    ),
    here("at = 0\nsignal", "at = 0\ntype = \"u16\"\nsignal", "").expect_line(
        "type = \"u16\"",
        "a coil or discrete input holds single bits",
    ),
    here("at = 0\ntype", "at = 65535\ntype", "")
        .expect_line("at = 65535", "beyond the last address"),
    here(
        "table = \"coil\"\nat = 0",
        "table = \"input\"\nat = 1\ntype = \"u16\"",
        "",
    )
    .expect_line(
        "at = 1",
        "overlaps with `grid.generator.wind.s1`, which occupies 0 … 1; the next free address is 2",
    ),
    here(
        "signal = \"grid.generator.wind.s1\"",
        "signal = \"gird.generator.wind.s1\"",
        "there is no plant `gird`; did you mean `grid`?",
    ),
    here(
        "signal = \"grid.generator.wind.s1\"",
        "signal = \"grid\"",
        "`grid` is not a signal",
    ),
    here("scale = 0.001", "scale = 0", "`scale` must not be 0"),
];
