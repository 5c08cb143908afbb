//! Scenarios of the tests: two hosts and a meter at one switch. The meter serves the signals of
//! `plant.py`.

use std::fmt::Write;
use std::process::Command;
use std::sync::OnceLock;

/// Command that polls the meter for the plant's walk, fifty times per second.
pub(crate) const POLL: &[&str] = &["python3", "poll.py", "10.0.0.10", "0.02"];

/// Builder of a scenario. The two hosts are `a` and `b`.
pub(crate) struct Scenario {
    duration: String,
    hosts: [String; 2],
    plant: Option<String>,
    tail: String,
}

impl Scenario {
    /// Creates a scenario that has only the network, for this virtual duration, such as `"1 s"`.
    pub(crate) fn lasting(duration: &str) -> Self {
        Self {
            duration: duration.to_owned(),
            hosts: Default::default(),
            plant: None,
            tail: String::new(),
        }
    }

    /// Adds a program to host `a` or `b`; `more` are further lines of TOML.
    pub(crate) fn program(mut self, host: char, name: &str, run: &[&str], more: &str) -> Self {
        let index = ['a', 'b'].iter().position(|other| *other == host);
        let programs = &mut self.hosts[index.expect("the hosts are a and b")];
        let mut run = run.to_vec();
        if run[0] == "python3" {
            // Without the module `site`, which takes half of the start.
            run.splice(..1, [python(), "-S"]);
        }
        write!(
            programs,
            "[[system.hosts.{host}.programs]]\nname = \"{name}\"\nrun = {run:?}\n{more}\n"
        )
        .expect("a String takes everything");
        self
    }

    /// Adds `plant.py` as the plant `world` behind the meter. `config` is its configuration as an
    /// inline table. Its walk, level and time are recorded every 50 ms.
    pub(crate) fn plant(self, config: &str) -> Self {
        self.plant_with(config, "")
    }

    /// Variant of [`plant`](Self::plant) with further lines for the plant's table.
    pub(crate) fn plant_with(mut self, config: &str, more: &str) -> Self {
        self.plant = Some(format!(
            r#"
[system.devices.meter]
address = "10.0.0.10/24"
registers = [
    {{ table = "input", at = 0, type = "f64", signal = "world.t_ns" }},
    {{ table = "input", at = 4, type = "f64", signal = "world.level" }},
    {{ table = "holding", at = 0, type = "f32", signal = "world.set" }},
]
[simulation.plants.world]
run = ["{}", "plant.py"]
step = "10 ms"
config = {config}
record = {{ signals = ["t_ns", "walk", "level", "set"], every = "50 ms" }}
{more}
"#,
            python()
        ));
        self
    }

    /// Appends TOML text to the scenario.
    pub(crate) fn and(mut self, tail: &str) -> Self {
        self.tail.push_str(tail);
        self
    }

    pub(crate) fn to_toml(&self) -> String {
        let meter = match self.plant {
            Some(_) => "    { between = [\"meter\", \"s1\"] },\n",
            None => "",
        };
        let [a, b] = &self.hosts;
        format!(
            r#"schema = "timeloom/1"
name = "e2e"
seed = 7
[time]
duration = "{}"
start = "2019-06-03T00:00:00Z"
[system]
switches = ["s1"]
links = [
    {{ between = ["a", "s1"] }},
    {{ between = ["b", "s1"] }},
{meter}]
[system.hosts.a]
address = "10.0.0.1/24"
{a}[system.hosts.b]
address = "10.0.0.2/24"
{b}{}{}"#,
            self.duration,
            self.plant.as_deref().unwrap_or_default(),
            self.tail,
        )
    }
}

/// Returns the path of the interpreter itself. On some machines, the command is a script that takes
/// time to find it.
fn python() -> &'static str {
    static PYTHON: OnceLock<String> = OnceLock::new();
    PYTHON.get_or_init(|| {
        let output = Command::new("python3")
            .args(["-c", "import sys; print(sys.executable)"])
            .output()
            .expect("python3 is installed");
        String::from_utf8(output.stdout)
            .expect("UTF-8")
            .trim()
            .to_owned()
    })
}
