//! Time modes in combination with arrangements of hosts. Each combination that `timeloom check`
//! accepts is run, and its result compared with that of mode `virtual` on one machine. The page
//! `docs/modes.md` has the table; `UPDATE=1` writes it.

use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use timeloom_test_support::{eventually, need};

use crate::placement::{METER, READER};
use crate::support::machines::{Machines, timeloom};

/// Name of a mode in the table, and the keys of `[time]`.
const MODES: [(&str, &str); 9] = [
    ("`virtual`", r#"mode = "virtual""#),
    ("`virtual`, dilated", "mode = \"virtual\"\ndilation = 1.5"),
    (
        "`virtual`, in periods",
        "mode = \"virtual\"\nperiod = \"70 ms\"",
    ),
    ("`skip`", r#"mode = "skip""#),
    (
        "`skip`, `compute = \"none\"`",
        "mode = \"skip\"\ncompute = \"none\"",
    ),
    (
        "`skip`, `compute = \"none\"`, in periods",
        "mode = \"skip\"\ncompute = \"none\"\nperiod = \"70 ms\"",
    ),
    ("`stepped`", r#"mode = "stepped""#),
    (
        "`stepped`, `compute = \"none\"`",
        "mode = \"stepped\"\ncompute = \"none\"\nstepped = { skip = true }",
    ),
    ("`real`", r#"mode = "real""#),
];

/// Arrangement of the hosts of the scenario.
#[derive(Clone, Copy, PartialEq)]
enum Arrangement {
    Kernel,
    Simulated(&'static str),
    KernelOnAgents,
    SimulatedOnAgents(&'static str),
}

/// Name of an arrangement in the table.
const ARRANGEMENTS: [(&str, Arrangement); 8] = [
    ("one machine, links of the kernel", Arrangement::Kernel),
    ("one machine, simulated network", Arrangement::Simulated("")),
    (
        "two engines that wait for one another",
        Arrangement::Simulated("mode = \"exact\"\n"),
    ),
    (
        "two free engines",
        Arrangement::Simulated("mode = \"free\"\n"),
    ),
    (
        "two engines that are processes",
        Arrangement::Simulated("mode = \"free\"\nprocesses = true\n"),
    ),
    (
        "two agents, links of the kernel",
        Arrangement::KernelOnAgents,
    ),
    (
        "two agents, engines that wait for one another",
        Arrangement::SimulatedOnAgents("mode = \"exact\"\n"),
    ),
    (
        "two agents, free engines",
        Arrangement::SimulatedOnAgents("mode = \"free\"\n"),
    ),
];

const HEAD: &str = "# Time modes and arrangements

Time modes in combination with arrangements of the hosts. A test runs each combination with *yes*,
with a client that asks a server ten times a second. It compares the answers with those of mode
`virtual` on one machine, and checks the delays by the clocks of both. `timeloom check` refuses the
other combinations; the number leads to its reason. (The test writes this page:
`crates/assembly/cli/tests/commands/modes.rs`.)
";

impl Arrangement {
    fn is_spread(self) -> bool {
        matches!(self, Self::KernelOnAgents | Self::SimulatedOnAgents(_))
    }

    /// Returns the delay of a message in each direction, less the reading error of the hosts' clocks.
    fn delay_ns(self) -> i64 {
        match self {
            Self::Kernel | Self::KernelOnAgents => 0,
            Self::Simulated(_) | Self::SimulatedOnAgents(_) => 4_990_000,
        }
    }

    /// Returns the scenario in the time mode with these keys.
    fn scenario(self, time: &str, machines: &Machines) -> String {
        let engines = match self {
            Self::Kernel | Self::KernelOnAgents => None,
            Self::Simulated(keys) | Self::SimulatedOnAgents(keys) => Some(keys),
        };
        let (links, addresses) = match engines {
            None => (
                r#"switches = ["s1"]
                links = [{ between = ["meter", "s1"] }, { between = ["reader", "s1"] }]"#,
                ["10.0.0.1/24", "10.0.0.2/24"],
            ),
            Some(_) => (
                r#"links = [
                    { between = ["meter", "r1"] },
                    { between = ["r1", "r2"], delay = "5 ms" },
                    { between = ["r2", "reader"] },
                ]"#,
                ["10.1.0.1/24", "10.2.0.2/24"],
            ),
        };
        let parts = r#"parts = { a = ["r1"], b = ["r2"] }"#;
        let network = match engines {
            None => String::new(),
            Some("") => "[network]\nrouters = [\"r1\", \"r2\"]\n".to_owned(),
            Some(keys) => {
                format!("[network]\nrouters = [\"r1\", \"r2\"]\n[network.engines]\n{parts}\n{keys}")
            }
        };
        let placement = match self.is_spread() {
            false => String::new(),
            true => format!(
                "[placement]\nkey_file = \"{}\"\npatience = \"30 s\"\ndefault = \"a\"\n\
                 nodes = {{ reader = \"b\" }}\n[placement.agents]\n\
                 a = {{ address = \"10.9.0.1:5500\" }}\nb = {{ address = \"10.9.0.2:5500\" }}\n",
                machines.scratch.text("key")
            ),
        };
        let [meter, reader] = addresses;
        let duration = duration(time);
        let server = meter.trim_end_matches("/24");
        format!(
            r#"schema = "timeloom/1"
            name = "modes"
            [time]
            duration = "{duration}"
            start = "2019-06-03T00:00:00Z"
            {time}
            {network}
            [system]
            {links}
            [system.hosts.meter]
            address = "{meter}"
            [[system.hosts.meter.programs]]
            name = "meter"
            run = ["/usr/bin/python3", "meter.py", "names.txt"]
            ready = "tcp:5000"
            [system.hosts.reader]
            address = "{reader}"
            [[system.hosts.reader.programs]]
            name = "reader"
            run = ["/usr/bin/python3", "reader.py", "{server}"]
            after = ["meter"]
            {placement}"#
        )
    }
}

/// Returns the duration of the run in a time mode. Where time passes as on the machine, programs
/// start late on a busy one.
fn duration(time: &str) -> &'static str {
    match time.contains("virtual") || time.contains("real") {
        true => "3 s",
        false => "1 s",
    }
}

/// Answer of the server, with the instants of request, answer and its arrival by the hosts' clocks.
#[derive(Debug)]
struct Answer {
    word: String,
    at_ns: [i64; 3],
}

impl Answer {
    fn of(text: &str) -> Self {
        let words: Vec<&str> = text.split_whitespace().collect();
        let ns = |index: usize| words[index].parse().expect("nanoseconds");
        Self {
            word: words[0].to_owned(),
            at_ns: [1, 2, 3].map(ns),
        }
    }
}

/// Checks that answers have the expected words, that each took at least `delay_ns` in each direction,
/// and that there were 0.1 s between an answer and the next request.
fn check(answers: &[Answer], expected: &[Answer], delay_ns: i64, of: &str) {
    // Programs start later on a busy machine, and then ask less often.
    assert!(answers.len() >= 2, "{of}: {answers:?}");
    for (answer, expected) in answers.iter().zip(expected) {
        assert_eq!(answer.word, expected.word, "{of}");
    }
    for Answer { at_ns, .. } in answers {
        let [asked, answered, arrived] = *at_ns;
        let took = (answered - asked).min(arrived - answered);
        assert!(took >= delay_ns, "{of}: {took} {answers:?}");
    }
    for pair in answers.windows(2) {
        let waited = pair[1].at_ns[0] - pair[0].at_ns[2];
        assert!(waited >= 100_000_000, "{of}: {waited} {answers:?}");
    }
}

/// Scenario in a directory with its programs.
struct Case {
    machines: Machines,
    directory: PathBuf,
}

impl Case {
    fn new() -> Self {
        need("/usr/bin/python3", "python3");
        let machines = Machines::new("modes", 2);
        let directory = machines.scratch.path("case");
        fs::create_dir(&directory).expect("a directory");
        for (name, text) in [
            ("meter.py", METER),
            ("reader.py", READER),
            ("names.txt", "volt\nampere\nwatt\n"),
        ] {
            fs::write(directory.join(name), text).expect("a file");
        }
        Self {
            machines,
            directory,
        }
    }

    fn write(&self, arrangement: Arrangement, time: &str) -> PathBuf {
        let path = self.directory.join("case.toml");
        let text = arrangement.scenario(time, &self.machines);
        fs::write(&path, text).expect("a file");
        path
    }

    /// Returns the reason why `timeloom check` refuses the scenario; `None` if it accepts it.
    fn refusal(scenario: &Path) -> Option<String> {
        let checked = timeloom(&["check", "--json", scenario.to_str().expect("text")]);
        if checked.status.success() {
            return None;
        }
        let said = String::from_utf8_lossy(&checked.stdout);
        let first = said.lines().next().expect("a mistake");
        let first: serde_json::Value = serde_json::from_str(first).expect("an object");
        Some(first["message"].as_str().expect("a text").to_owned())
    }

    /// Runs the scenario, and returns the answers.
    fn run(&self, arrangement: Arrangement, time: &str, scenario: &Path) -> Vec<Answer> {
        let mut run = match arrangement.is_spread() {
            true => self.machines.start(scenario, &["--replace"]),
            false => self.start_here(scenario),
        };
        let name = match arrangement.is_spread() {
            true => self.machines.session(0),
            false => self.session(),
        };
        if time.contains("stepped") {
            eventually("it is granted", || {
                let granted = timeloom(&["run-until", duration(time), "--name", &name]);
                granted.status.success() || run.try_wait().expect("our own child").is_some()
            });
        }
        let output = run.wait_with_output().expect("it ends");
        let said = String::from_utf8_lossy(&output.stderr);
        let json = String::from_utf8_lossy(&output.stdout);
        // A machine may be too busy for a simulated network in real time.
        assert!(
            matches!(output.status.code(), Some(0 | 4)),
            "{time}: {json} {said}"
        );
        let log = self.machines.scratch.path("results/logs/reader.log");
        let log = fs::read_to_string(log).expect("a log");
        let answers = log.lines().filter_map(|line| line.split_once("] "));
        answers.map(|(_, text)| Answer::of(text)).collect()
    }

    fn session(&self) -> String {
        format!("{}-here", self.machines.tag)
    }

    fn start_here(&self, scenario: &Path) -> Child {
        Command::new(env!("CARGO_BIN_EXE_timeloom"))
            .args(["run", "--json", "--replace", "--name", &self.session()])
            .args(["--output", &self.machines.scratch.text("results")])
            .arg(scenario)
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("timeloom run")
    }
}

#[test]
fn every_mode_that_check_accepts_has_the_answers_of_mode_virtual() {
    let case = Case::new();
    let agents = case.machines.serving(2);
    let (_, time) = MODES[0];
    let scenario = case.write(Arrangement::Kernel, time);
    let expected = case.run(Arrangement::Kernel, time, &scenario);
    assert!(expected.len() >= 5, "{expected:?}");

    let mut reasons: Vec<String> = Vec::new();
    let mut rows = String::new();
    for (name, arrangement) in ARRANGEMENTS {
        let _ = write!(rows, "| {name} |");
        for (mode, time) in MODES {
            let scenario = case.write(arrangement, time);
            let cell = match Case::refusal(&scenario) {
                None => {
                    let answers = case.run(arrangement, time, &scenario);
                    let of = format!("{name}, {mode}");
                    check(&answers, &expected, arrangement.delay_ns(), &of);
                    // Where computing takes no time, the machine's speed has no effect.
                    let is_exact = time.contains("none");
                    assert!(!is_exact || answers.len() >= 8, "{of}: {answers:?}");
                    "yes".to_owned()
                }
                Some(reason) => {
                    let known = reasons.iter().position(|it| *it == reason);
                    let number = known.unwrap_or_else(|| {
                        reasons.push(reason);
                        reasons.len() - 1
                    });
                    format!("({})", number + 1)
                }
            };
            let _ = write!(rows, " {cell} |");
        }
        rows.push('\n');
    }
    drop(agents);
    let mut page = format!("{HEAD}\n| |");
    MODES.iter().for_each(|(mode, _)| {
        let _ = write!(page, " {mode} |");
    });
    let _ = write!(page, "\n|---|{}\n{rows}\n", "---|".repeat(MODES.len()));
    for (number, reason) in (1..).zip(&reasons) {
        let _ = writeln!(page, "{number}. {reason}");
    }
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../docs/modes.md");
    if std::env::var_os("UPDATE").is_some() {
        fs::write(&file, &page).expect("the page can be written");
    }
    let written = fs::read_to_string(&file).unwrap_or_default();
    assert_eq!(written, page, "`UPDATE=1` writes the page");
}
