//! The state of a run in the form that is sent to pages. Times are in virtual seconds unless a name
//! states otherwise.

use serde::Serialize;
use timeloom_guest::StatusText;
use timeloom_results::{
    Check, EventRow, LabelRow, Manifest, Outcome, ResultsError, RunDirectory, format_rfc3339,
};
use timeloom_text::visible;
use timeloom_time::Instant;

/// Properties of a run that are shown both in the list of runs and on the run's page.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(crate) struct About {
    /// Name below the directory, for display.
    pub(crate) shown: String,
    /// Name of the scenario.
    pub(crate) scenario: String,
    pub(crate) state: State,
    /// Civil time of the start, in RFC 3339.
    pub(crate) started: String,
    pub(crate) culprit: Option<String>,
    /// Reasons why the results cannot be trusted, each with its remedy; `None` during the run.
    pub(crate) untrusted: Option<Vec<String>>,
    pub(crate) has_report: bool,
}

impl About {
    fn of(
        name: &str,
        run: &RunDirectory,
        manifest: &Manifest,
        has_session: bool,
        most_reasons: usize,
    ) -> Self {
        let has_ended = manifest.outcome != Outcome::Running;
        let untrusted = || all_bounded(&manifest.untrusted, most_reasons);
        Self {
            shown: bounded(name),
            scenario: bounded(&manifest.name),
            state: State::of(manifest.outcome, has_session),
            started: format_rfc3339(manifest.started),
            culprit: manifest.culprit.as_deref().map(bounded),
            untrusted: has_ended.then(untrusted),
            has_report: run.has_report(),
        }
    }
}

/// Entry of the list of runs.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Listed {
    /// Name below the directory, for URLs.
    pub(crate) run: String,
    #[serde(flatten)]
    pub(crate) about: About,
    pub(crate) virtual_s: f64,
    /// Number of checks that passed.
    pub(crate) passed: usize,
    /// Number of checks that failed.
    pub(crate) failed: usize,
    /// Reason why the run cannot be read.
    pub(crate) error: Option<String>,
}

impl Listed {
    pub(crate) fn of(
        name: String,
        run: &RunDirectory,
        manifest: &Manifest,
        has_session: bool,
    ) -> Self {
        Self {
            about: About::of(&name, run, manifest, has_session, MOST_LISTED_REASONS),
            run: name,
            virtual_s: manifest.virtual_duration.as_s_f64(),
            passed: 0,
            failed: 0,
            error: None,
        }
    }

    /// Returns the list entry of a run that cannot be read.
    pub(crate) fn unreadable(run: String, error: &ResultsError) -> Self {
        Self {
            about: About {
                shown: bounded(&run),
                scenario: String::new(),
                state: State::Unreadable,
                started: String::new(),
                culprit: None,
                untrusted: None,
                has_report: false,
            },
            run,
            virtual_s: 0.0,
            passed: 0,
            failed: 0,
            error: Some(bounded(&error.to_string())),
        }
    }
}

/// State of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum State {
    /// The session of the run answers.
    Running,
    /// The run reached its end.
    Done,
    /// A part of the run failed.
    Failed,
    /// A user ended the run.
    Interrupted,
    /// The run has neither a session nor a recorded end: it is starting, is writing its results, or
    /// was killed.
    Unfinished,
    /// The directory of the run cannot be read.
    Unreadable,
}

impl State {
    /// Returns the state of a run from the outcome in its manifest.
    pub(crate) fn of(outcome: Outcome, has_session: bool) -> Self {
        match outcome {
            _ if has_session => Self::Running,
            Outcome::Running => Self::Unfinished,
            Outcome::Done => Self::Done,
            Outcome::Failed => Self::Failed,
            Outcome::Interrupted => Self::Interrupted,
        }
    }
}

/// Properties of a run that seldom change.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(crate) struct RunView {
    #[serde(flatten)]
    pub(crate) about: About,
    pub(crate) seed: u64,
    pub(crate) time_mode: String,
    pub(crate) degraded: Vec<String>,
    pub(crate) checks: Vec<CheckView>,
    /// Remarks about content that the page does not show.
    pub(crate) remarks: Vec<String>,
}

/// Check of the scenario.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(crate) struct CheckView {
    pub(crate) name: String,
    /// Result: `passed`, `failed`, or `not applicable`.
    pub(crate) verdict: &'static str,
    pub(crate) explanation: String,
}

/// Clock of a run.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(crate) struct ClockView {
    pub(crate) virtual_s: f64,
    pub(crate) wall_s: f64,
    pub(crate) paused_s: f64,
    pub(crate) paused: bool,
    pub(crate) dilation: f64,
    pub(crate) skipping: bool,
    /// Virtual seconds per wall second, over the last second or two; `None` if the rate is not
    /// known.
    pub(crate) rate: Option<f64>,
    pub(crate) holds: Vec<HoldView>,
}

/// Hold on the pause of a run.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(crate) struct HoldView {
    pub(crate) requester: String,
    pub(crate) reason: String,
    /// Wall time since the hold was granted, in seconds.
    pub(crate) held_s: f64,
}

/// Host of a run.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(crate) struct HostView {
    pub(crate) name: String,
    pub(crate) behind_s: f64,
    pub(crate) paused: bool,
    pub(crate) dilation: f64,
}

/// Program of a run.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(crate) struct ProgramView {
    pub(crate) host: String,
    pub(crate) name: String,
    /// State: `running`, `ready`, or `ended`.
    pub(crate) state: &'static str,
    pub(crate) since_s: f64,
    /// Command of a running program, or cause of the end.
    pub(crate) text: String,
}

/// Event of a run.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(crate) struct EventView {
    pub(crate) t_s: f64,
    pub(crate) host: String,
    pub(crate) source: String,
    pub(crate) kind: String,
    pub(crate) text: String,
}

/// Attack of a run.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(crate) struct AttackView {
    pub(crate) name: String,
    pub(crate) technique: String,
    pub(crate) target: String,
    pub(crate) start_s: f64,
    /// End of the attack; `None` if it has not ended.
    pub(crate) end_s: Option<f64>,
}

impl RunView {
    /// Returns the properties in the manifest, without the checks.
    pub(crate) fn of(
        name: &str,
        run: &RunDirectory,
        manifest: &Manifest,
        has_session: bool,
    ) -> Self {
        Self {
            about: About::of(name, run, manifest, has_session, MOST_ITEMS),
            seed: manifest.seed,
            time_mode: bounded(&manifest.time_mode),
            degraded: all_bounded(&manifest.degraded_modes, MOST_ITEMS),
            checks: Vec::new(),
            remarks: Vec::new(),
        }
    }
}

impl CheckView {
    pub(crate) fn of(check: &Check) -> Self {
        Self {
            name: bounded(&check.name),
            verdict: match (check.applies, check.passed) {
                (false, _) => "not applicable",
                (true, true) => "passed",
                (true, false) => "failed",
            },
            explanation: bounded(&check.explanation),
        }
    }
}

impl ClockView {
    /// Returns the clock of a running session.
    pub(crate) fn of(status: &StatusText, rate: Option<f64>) -> Self {
        let hold = |hold: &timeloom_guest::HoldText| HoldView {
            requester: bounded(&hold.requester),
            reason: bounded(&hold.reason),
            held_s: seconds(hold.held_ns),
        };
        Self {
            virtual_s: seconds(status.virtual_ns),
            wall_s: seconds(status.wall_ns),
            paused_s: seconds(status.paused_total_ns),
            paused: status.paused,
            dilation: status.dilation,
            skipping: status.skipping,
            rate,
            holds: status.holds.iter().take(MOST_ITEMS).map(hold).collect(),
        }
    }

    /// Returns the clock of a run that has ended.
    pub(crate) fn at_the_end(manifest: &Manifest) -> Self {
        let (virtual_s, wall_s) = (
            manifest.virtual_duration.as_s_f64(),
            manifest.wall_duration.as_s_f64(),
        );
        Self {
            virtual_s,
            wall_s,
            paused_s: manifest.paused_total.as_s_f64(),
            paused: true,
            dilation: 1.0,
            skipping: false,
            rate: (wall_s > 0.0).then(|| virtual_s / wall_s),
            holds: Vec::new(),
        }
    }
}

impl EventView {
    pub(crate) fn of(row: &EventRow) -> Self {
        Self {
            t_s: seconds(row.t_virtual.as_ns()),
            host: bounded(&row.host),
            source: bounded(&row.source),
            kind: bounded(&row.kind),
            text: bounded(&row.text),
        }
    }
}

impl AttackView {
    pub(crate) fn of(row: &LabelRow) -> Self {
        Self {
            name: bounded(&row.attack),
            technique: bounded(&row.technique),
            target: bounded(&row.target),
            start_s: seconds(row.start.as_ns()),
            end_s: (row.end != Instant::FAR_FUTURE).then(|| seconds(row.end.as_ns())),
        }
    }
}

/// Converts a time to seconds, rounded to microseconds so that its text is short.
pub(crate) fn seconds(ns: i64) -> f64 {
    (ns / 1000) as f64 / 1e6
}

/// Returns the beginning of a text from a run. Control characters, and characters that reverse the
/// writing direction, are escaped.
pub(crate) fn bounded(text: &str) -> String {
    match text.char_indices().nth(MOST_CHARACTERS) {
        Some((end, _)) => format!("{}…", visible(&text[..end])),
        None => visible(text).into_owned(),
    }
}

fn all_bounded(texts: &[impl std::ops::Deref<Target = str>], most: usize) -> Vec<String> {
    texts.iter().take(most).map(|text| bounded(text)).collect()
}

/// Maximum length of a text from a run, in characters.
const MOST_CHARACTERS: usize = 1000;
/// Maximum number of reasons, of checks and of holds.
pub(crate) const MOST_ITEMS: usize = 100;
/// Maximum number of reasons that the list of runs shows for an untrusted run.
const MOST_LISTED_REASONS: usize = 3;
