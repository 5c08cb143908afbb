//! Command `timeloom doctor`: tests the capabilities of this machine.
//!
//! Version numbers and configuration files only tell what a kernel should support. Containers,
//! security modules and virtual machines remove parts of that. Therefore each feature is tried
//! once, and everything that the trial created is removed.

mod agents;
mod clock;
mod network;
mod tools;

use std::path::PathBuf;
use std::process::ExitCode;

use clap::Args;
use serde::{Deserialize, Serialize};
use timeloom_run::exit::{Failure, say};

/// Test the capabilities of this machine
///
/// Shows for each feature: ok, degraded (it works, with the stated loss) or missing, with the
/// consequence and the fix. Nothing is changed.
///
/// Exit code: 0 if `timeloom exec` works; 3 if a feature that it needs is missing. Features that
/// only `timeloom run` or the examples need do not count. With --agents: 0 if all agents answer,
/// can run their shares and have clocks that agree; otherwise 3.
#[derive(Args)]
pub(crate) struct Doctor {
    /// Print one JSON object per line: one for each feature, then one each for exec and run
    #[arg(long)]
    json: bool,
    /// Query the agents of a scenario's [placement] instead: their capabilities, the errors of
    /// their clocks, and whether they are busy
    #[arg(long, value_name = "SCENARIO")]
    agents: Option<PathBuf>,
}

/// Degree to which a feature is available.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
enum State {
    Ok,
    Degraded,
    Missing,
}

/// Command or purpose that needs a feature. `timeloom run` needs the features of `exec` and more.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Need {
    Exec,
    Run,
    Examples,
}

/// Feature, and the degree to which this machine provides it.
#[derive(Debug, Serialize, Deserialize)]
struct Finding {
    feature: String,
    state: State,
    needed_for: Need,
    /// Observation that the test of the feature has made.
    detail: String,
    /// Consequence for the user; empty if the feature is available.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    consequence: String,
    /// Suggested fix; empty if the feature is available.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    fix: String,
}

impl Finding {
    fn good(need: Need, feature: &str, detail: impl Into<String>) -> Self {
        Self {
            feature: feature.to_owned(),
            state: State::Ok,
            needed_for: need,
            detail: detail.into(),
            consequence: String::new(),
            fix: String::new(),
        }
    }

    /// Creates a finding about a problem. The caller must add a consequence and a fix.
    fn bad(state: State, need: Need, feature: &str, detail: impl Into<String>) -> Bad {
        let good = Self::good(need, feature, detail);
        Bad(Self { state, ..good })
    }
}

/// Finding about a problem, without its consequence and its fix.
struct Bad(Finding);

impl Bad {
    fn so(self, consequence: &str, fix: &str) -> Finding {
        let (consequence, fix) = (consequence.to_owned(), fix.to_owned());
        Finding {
            consequence,
            fix,
            ..self.0
        }
    }
}

/// Verdict about a command: can it work on this machine, and with which losses?
#[derive(Debug, Serialize)]
struct Verdict {
    command: &'static str,
    state: State,
    detail: String,
}

impl Doctor {
    pub(crate) fn run(self) -> Result<ExitCode, Failure> {
        if let Some(scenario) = &self.agents {
            return agents::run(scenario, self.json);
        }
        let mut findings = clock::examine();
        findings.extend(network::examine());
        findings.extend(tools::examine());
        let verdicts = [
            verdict("exec", &findings, Need::Exec),
            verdict("run", &findings, Need::Run),
        ];
        if self.json {
            for finding in &findings {
                say!("{}", json(finding));
            }
            for verdict in &verdicts {
                say!("{}", json(verdict));
            }
        } else {
            print(&findings, &verdicts);
        }
        Ok(code(verdicts[0].state))
    }
}

fn code(state: State) -> ExitCode {
    match state {
        State::Missing => ExitCode::from(CANNOT),
        _ => ExitCode::SUCCESS,
    }
}

/// Returns whether a command can work, from the findings about the features that it needs.
fn verdict(command: &'static str, findings: &[Finding], need: Need) -> Verdict {
    let needed = || findings.iter().filter(|finding| finding.needed_for <= need);
    let in_state = |state| {
        let named = needed().filter(|finding| finding.state == state);
        let names: Vec<&str> = named.map(|finding| finding.feature.as_str()).collect();
        names.join(", ")
    };
    let state = needed()
        .map(|finding| finding.state)
        .max()
        .unwrap_or(State::Ok);
    let detail = match state {
        State::Ok => "works, with everything at its best".to_owned(),
        State::Degraded => format!("works; degraded: {}", in_state(State::Degraded)),
        State::Missing => format!("does not work; missing: {}", in_state(State::Missing)),
    };
    Verdict {
        command,
        state,
        detail,
    }
}

fn print(findings: &[Finding], verdicts: &[Verdict]) {
    let width = findings.iter().map(|finding| finding.feature.len()).max();
    let width = width.unwrap_or(0);
    let word = |state| match state {
        State::Ok => "ok",
        State::Degraded => "degraded",
        State::Missing => "MISSING",
    };
    for finding in findings {
        let Finding {
            feature,
            state,
            detail,
            consequence,
            fix,
            ..
        } = finding;
        // The detail may quote several lines of another program.
        let detail = detail.trim().replace('\n', "\n            ");
        say!("{:<9} {feature:<width$}  {detail}", word(*state));
        if !consequence.is_empty() {
            say!("            so:  {consequence}");
        }
        if !fix.is_empty() {
            say!("            fix: {fix}");
        }
    }
    say!();
    for verdict in verdicts {
        say!("timeloom {:<4}  {}", verdict.command, verdict.detail);
    }
}

fn json(value: &impl Serialize) -> String {
    serde_json::to_string(value).expect("findings are plain data")
}

/// Exit code for a machine that lacks a required feature.
const CANNOT: u8 = 3;
