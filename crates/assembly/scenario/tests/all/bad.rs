//! Bad files: each mistake is found where it stands, and all of them at once.

use timeloom_scenario::{ScenarioErrors, parse};

const EVERYTHING: &str = include_str!("../../examples/everything.toml");

fn errors(text: &str) -> ScenarioErrors {
    parse(text, "lab/test.toml", &[]).expect_err("the scenario is wrong")
}

/// A change to the good file, the line that must be named, as a text that it
/// contains, and the message.
struct Case {
    replace: &'static str,
    with: &'static str,
    line: &'static str,
    message: &'static str,
    /// How many mistakes the change makes.
    count: usize,
}

const fn case(
    replace: &'static str,
    with: &'static str,
    line: &'static str,
    message: &'static str,
) -> Case {
    Case {
        replace,
        with,
        line,
        message,
        count: 1,
    }
}

/// A case whose line is the changed one.
const fn here(replace: &'static str, with: &'static str, message: &'static str) -> Case {
    case(replace, with, with, message)
}

const CASES: &[Case] = &[
    // Clocks of hosts.
    here(
        "frequency = \"50 ppm\"",
        "frequency = \"50 ppx\"",
        "`50 ppx` is not a frequency error",
    ),
    here(
        "frequency = \"50 ppm\"",
        "frequency = \"-20000 ppm\"",
        "no crystal is as far off as -20000 ppm",
    ),
    here(
        "wander = \"1 ppb\"",
        "wander = \"-1 ppb\"",
        "`wander` is a standard deviation, and -1 ppb cannot be one",
    ),
    here(
        "frequency = \"50 ppm\"",
        "freqency = \"50 ppm\"",
        "unknown key `freqency` in a clock; did you mean `frequency`?",
    ),
    here(
        "temperature = { swing_k = 4.0, period = \"24 h\"",
        "temperature = { swing_k = 400.0, period = \"24 h\"",
        "400 K is too much for a crystal",
    ),
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
        "time cannot skip over what Open vSwitch is at work on",
    ),
    // Time.
    here(
        "duration = \"90 s\"",
        "duration = 90",
        "a length of time needs a unit",
    ),
    here(
        "duration = \"90 s\"",
        "duration = \"90 parsecs\"",
        "the unit must be",
    ),
    here(
        "duration = \"90 s\"",
        "duration = \"0 s\"",
        "must be greater than 0",
    ),
    here(
        "mode = \"virtual\"",
        "mode = \"virtul\"",
        "`virtul` is not known here; did you mean `virtual`?",
    ),
    case(
        "mode = \"virtual\"",
        "mode = \"real\"",
        "dilation = 2",
        "real time cannot be dilated",
    ),
    Case {
        replace: "mode = \"virtual\"",
        with: "mode = \"real\"\ntsc = \"emulate\"",
        line: "tsc = \"emulate\"",
        message: "in real time the counter is the machine's",
        count: 2, // it cannot be dilated either
    },
    case(
        "dilation = 2",
        "dilation = 2\ntsc = \"emulated\"",
        "tsc = \"emulated\"",
        "`emulated` is not known here; did you mean `emulate`?",
    ),
    case(
        "dilation = 2",
        "dilation = 2\nproc = \"native\"",
        "proc = \"native\"",
        "`native` is not known here; known: `virtual`, `machine`",
    ),
    case(
        "mode = \"virtual\"",
        "mode = \"stepped\"",
        "stepped = { skip = true",
        "time cannot skip over what Open vSwitch is at work on",
    ),
    here(
        "patience = \"30 s\"",
        "patience = \"0 s\"",
        "must be greater than 0",
    ),
    here(
        "patience = \"30 s\"",
        "patient = \"30 s\"",
        "did you mean `patience`?",
    ),
    here(
        "dilation = 2",
        "dilation = 0",
        "a dilation of 0 is out of range",
    ),
    here(
        "start = \"2019-06-03T00:00:00Z\"",
        "start = \"yesterday\"",
        "is not a date and time",
    ),
    here(
        "start = \"500 ms\"",
        "start = \"90 s\"",
        "90 s is not before the end of the run",
    ),
    here(
        "start = \"500 ms\"",
        "start = \"-1 s\"",
        "is before the run begins",
    ),
    here(
        "at = \"22.5 s\"",
        "at = \"2 min\"",
        "120 s is not before the end of the run",
    ),
    here(
        "start = \"23 s\"",
        "start = \"22 s\"",
        "this is before the attack begins, at 22.5 s",
    ),
    here("step = \"10 ms\"", "step = \"30 ms\"", "")
        .expect_line("record = {", "cannot be recorded every 100 ms"),
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
    .counting(3), // Nor has it an address or a link.
    here(
        "name = \"no-sag\"",
        "name = \"sag\"",
        "a second check is called `sag`",
    ),
    // Network.
    here(
        "between = [\"control\", \"s1\"]",
        "between = [\"control\", \"s7\"]",
        "`s7` is no switch, host or device; did you mean",
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
    .counting(2), // The capture of that link goes with it.
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
    .counting(2), // The panel draws the one that is lost.
    here(
        "env = { PYTHONPATH = \"../../python\" }",
        "env = { \"\" = \"x\" }",
        "`` cannot be the name of an environment variable",
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
    .counting(2), // And it lacks `at`.
];

impl Case {
    const fn counting(self, count: usize) -> Self {
        Self { count, ..self }
    }

    const fn expect_line(self, line: &'static str, message: &'static str) -> Self {
        Self {
            line,
            message,
            ..self
        }
    }
}

#[test]
fn each_mistake_is_found_where_it_stands() {
    let mut wrong = Vec::new();
    for Case {
        replace,
        with,
        line,
        message,
        count,
    } in CASES
    {
        assert!(
            EVERYTHING.contains(replace),
            "{replace} is in the good file"
        );
        let text = EVERYTHING.replacen(replace, with, 1);
        let Err(errors) = parse(&text, "lab/test.toml", &[]) else {
            wrong.push(format!("{with}: accepted"));
            continue;
        };
        let named = |number: usize| text.lines().nth(number.wrapping_sub(1)).unwrap_or("");
        let hit = errors.mistakes().iter().any(|mistake| {
            named(mistake.line).contains(line.trim_end()) && mistake.to_string().contains(message)
        });
        if !hit || errors.mistakes().len() != *count {
            wrong.push(format!(
                "{with:?}: wanted {message:?} once at {line:?}, got:\n{errors}"
            ));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n\n"));
}

#[test]
fn all_mistakes_are_reported_in_the_order_of_the_file() {
    let text = EVERYTHING
        .replacen("seed = 7", "sede = 7", 1)
        .replacen("duration = \"90 s\"", "duration = \"90\"", 1)
        .replacen("essential = true", "essentail = true", 1)
        .replacen("\"T0814\"", "\"T814\"", 1)
        .replacen("after = [\"arpspoof-a\"]", "after = [\"arpspoof-c\"]", 1)
        .replacen("link = [\"s2\", \"s1\"]", "link = [\"s2\", \"s9\"]", 1);
    let errors = errors(&text);
    let lines: Vec<usize> = errors
        .mistakes()
        .iter()
        .map(|mistake| mistake.line)
        .collect();
    assert_eq!(lines.len(), 6, "{errors}");
    assert!(lines.is_sorted(), "{errors}");
    assert!(
        errors
            .to_string()
            .starts_with("lab/test.toml:4:1: unknown key `sede`"),
        "{errors}"
    );
}

#[test]
fn a_brace_that_is_missing_is_one_mistake() {
    let errors = errors(&EVERYTHING.replacen('}', "", 1));
    let [mistake] = errors.mistakes() else {
        panic!("{errors}");
    };
    assert!(mistake.message.contains("not valid TOML"), "{errors}");
}

#[test]
fn a_mistake_is_shown_with_its_text_and_the_fix() {
    let text = EVERYTHING.replacen("mode = \"virtual\"", "mode = \"virtul\"", 1);
    let shown = errors(&text).render(false);
    let expected = r#"error: `virtul` is not known here
 --> lab/test.toml:7:8
  |
7 | mode = "virtul"
  |        ^^^^^^^^
  |
  = help: did you mean `virtual`?"#;
    assert_eq!(shown, expected);
    assert!(errors(&text).render(true).contains('\u{1b}'));
}

#[test]
fn an_empty_file_needs_everything() {
    let errors = errors("");
    let messages: Vec<String> = errors
        .mistakes()
        .iter()
        .map(|m| m.message.clone())
        .collect();
    let expected = [
        "a scenario needs `schema`",
        "a scenario needs `name`",
        "a scenario needs `time`",
    ];
    assert_eq!(messages, expected);
    errors.render(false);
}
