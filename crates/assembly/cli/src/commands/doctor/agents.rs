//! Tests of the agents of a scenario: their capabilities, and the errors of their clocks.

use std::io::IsTerminal;
use std::path::Path;
use std::process::ExitCode;

use serde::Serialize;
use timeloom_run::agent::{AgentDescription, AgentTimeline, Description, describe};
use timeloom_run::exit::{Failure, say};
use timeloom_time::{Duration, Instant};

use super::{Finding, Need, State, code, print, verdict};

/// Report about one agent, as it is printed.
#[derive(Serialize)]
struct Report {
    agent: String,
    address: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    version: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    busy: Option<bool>,
    /// Error bound of the agent's clock, in ns.
    #[serde(skip_serializing_if = "Option::is_none")]
    clock_error_ns: Option<i64>,
    state: State,
    findings: Vec<Finding>,
}

pub(super) fn run(scenario: &Path, as_json: bool) -> Result<ExitCode, Failure> {
    let plan = timeloom_scenario::load(scenario, &[]).map_err(|errors| {
        Failure::usage_in_colours(errors.render(std::io::stderr().is_terminal()))
    })?;
    let agents =
        describe(&plan).map_err(|why| Failure::usage(format!("{}: {why}", scenario.display())))?;
    let reports: Vec<Report> = agents.into_iter().map(report).collect();
    for report in &reports {
        match as_json {
            true => say!("{}", super::json(report)),
            false => tell(report),
        }
    }
    let worst = reports.iter().map(|report| report.state).max();
    Ok(code(worst.unwrap_or(State::Missing)))
}

fn report(agent: AgentDescription) -> Report {
    let AgentDescription {
        name,
        address,
        answer,
    } = agent;
    let unknown = Report {
        agent: name,
        address,
        version: None,
        busy: None,
        clock_error_ns: None,
        state: State::Missing,
        findings: Vec::new(),
    };
    match answer {
        Err(why) => {
            let gone = Finding::bad(State::Missing, Need::Run, "agent", why.to_string()).so(
                "a run that needs this agent does not begin",
                "start it there: `timeloom agent --serve`, with the key and at the address that \
                 the scenario names",
            );
            Report {
                findings: vec![gone],
                ..unknown
            }
        }
        Ok((said, within)) => {
            let mut findings = vec![clock(&said, within)];
            let lines = said.findings.lines();
            // Verdicts about commands are not taken over from the agent, but computed here from its
            // findings.
            findings.extend(lines.filter_map(|line| serde_json::from_str::<Finding>(line).ok()));
            if findings.len() == 1 {
                let silent = Finding::bad(
                    State::Missing,
                    Need::Run,
                    "doctor",
                    "`timeloom doctor` on the agent printed nothing",
                );
                findings.push(silent.so(
                    "its ability to run its share is unknown",
                    "run `timeloom doctor` there, as the user of the agent",
                ));
            }
            Report {
                version: Some(said.version),
                busy: Some(said.busy),
                clock_error_ns: Some(said.error_ns),
                state: verdict("run", &findings, Need::Run).state,
                findings,
                ..unknown
            }
        }
    }
}

/// Returns a finding about the error of the clock that the agent shares with others.
fn clock(said: &Description, within: [Instant<timeloom_clock::TimelineTime>; 2]) -> Finding {
    const NAME: &str = "clock shared with the others";
    if said.timeline == AgentTimeline::Machine {
        let detail = "its kernel's CLOCK_MONOTONIC: correct only if all agents are on one machine";
        return Finding::good(Need::Run, NAME, detail);
    }
    let error = Duration::from_ns(said.error_ns);
    let off = said.off_at_least(within);
    let detail = format!("civil time, with an error of at most {error} according to its kernel");
    if off > Duration::ZERO {
        let detail = format!("{detail}; it differs from this machine's by {off} or more");
        return Finding::bad(State::Degraded, Need::Run, NAME, detail).so(
            "the civil time of one of the two machines is wrong, and clocks of a run may differ by \
             this much",
            "run chrony or PTP on both, from one source",
        );
    }
    match error >= COARSE {
        true => Finding::bad(State::Degraded, Need::Run, NAME, detail).so(
            "each pause begins and ends that much later than requested",
            "run chrony or PTP there",
        ),
        false => Finding::good(Need::Run, NAME, detail),
    }
}

fn tell(report: &Report) {
    let Report { agent, address, .. } = report;
    let about = match (&report.version, report.busy) {
        (Some(version), Some(busy)) => format!(
            ", timeloom {version}, {}",
            if busy { "at work" } else { "free" }
        ),
        _ => String::new(),
    };
    say!("agent {agent} ({address}){about}");
    print(
        &report.findings,
        &[verdict("run", &report.findings, Need::Run)],
    );
    say!();
}

/// Clock error above which a warning is given. It is longer than most pauses.
const COARSE: Duration = Duration::from_ms(100);
