//! Command `timeloom run`: runs a scenario, from its check to the report.

use std::io::IsTerminal;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::{Duration as StdDuration, Instant as StdInstant};

use clap::Args;
use timeloom_guest::FileTimes;
use timeloom_results::{CheckResult, Difference, RunDirectory, compare_runs};
use timeloom_run::exit::{Failure, TEXTS_DIFFER, UNTRUSTED, note, note_line, note_over, try_say};
use timeloom_run::report::ReportError;
use timeloom_run::{End, Progress, RunOptions, Summary};
use timeloom_scenario::{MachineChecks, Places, Plan, load_with_places};
use timeloom_time::Duration;

use super::interruption::interruption;
use super::words::words_of;

/// Run a scenario: network, plants, programs, report
///
/// Checks the scenario, builds its network, plants and devices, runs its programs on one virtual
/// clock, and creates a run directory with signals, captures, logs, checks and a report.
///
/// Needs root, for network namespaces and cgroups. During the run, `timeloom query`, `pause` and
/// `resume` act on it. Ctrl-C ends the run and keeps the results so far.
///
/// Exit code: 0 if the run reached its end and all checks hold; 1 if something failed; 2 for a
/// mistake in the scenario; 3 if this machine cannot run it; 4 if it ran too slowly for the results
/// to be trusted, so that neither passed nor failed checks have a meaning. With --verify also 1 if
/// the runs differ, and 5 if they differ only in the text that programs printed.
#[derive(Args)]
pub(crate) struct Run {
    /// The scenario file
    scenario: PathBuf,
    /// Directory of the run [default: runs/NAME-TIME]
    #[arg(short, long, value_name = "DIR")]
    output: Option<PathBuf>,
    /// Replace the run that this directory already contains
    #[arg(long)]
    replace: bool,
    /// Change a value of the scenario, e.g. `attack.dos.enabled=false`; may be repeated
    #[arg(long = "set", value_name = "KEY=VALUE")]
    sets: Vec<String>,
    /// Dates of files that programs see, in place of the scenario's `time.files` [default: the
    /// scenario's]
    #[arg(long, value_parser = words_of::<FileTimes>(), value_name = "WHOSE")]
    file_times: Option<FileTimes>,
    /// Name of the session, for `timeloom query` and other commands [default: run-PID]
    #[arg(long)]
    name: Option<String>,
    /// Run the scenario twice, and compare the runs. Shows the first row that differs, by virtual
    /// time, and fails if there is one; the exit code is 5 if only printed text differs. The
    /// directory of the second run is DIR-again
    #[arg(long)]
    verify: bool,
    /// Print the result as one JSON object
    #[arg(long)]
    json: bool,
}

impl Run {
    pub(crate) fn run(self) -> Result<ExitCode, Failure> {
        let mut sets = self.sets;
        sets.extend(self.file_times.map(|source| match source {
            FileTimes::Machine => "time.files=\"machine\"".to_owned(),
            FileTimes::Virtual => "time.files=\"virtual\"".to_owned(),
        }));
        let loaded = load_with_places(&self.scenario, &sets, MachineChecks::Checked);
        let (plan, places) = loaded.map_err(|errors| {
            Failure::usage_in_colours(errors.render(std::io::stderr().is_terminal()))
        })?;
        let directory = self.output.unwrap_or_else(|| default_directory(&plan.name));
        let session = self
            .name
            .unwrap_or_else(|| format!("run-{}", std::process::id()));
        let interrupted = interruption()?;
        let replace = self.replace;
        let read = (&plan, &places);
        let first = make(read, directory, replace, &session, &interrupted)?;
        let (text, json, code) = if self.verify && first.summary.end != End::Interrupted {
            let mut again = first.directory.clone().into_os_string();
            again.push("-again");
            let second = make(read, again.into(), replace, &session, &interrupted)?;
            verdict(&first, &second)?
        } else {
            (first.to_text(), first.to_json(), first.code())
        };
        // The exit code must not change if the reader has closed the pipe (`| head`).
        let _ = if self.json {
            try_say(format_args!("{json}"))
        } else {
            try_say(format_args!("{text}"))
        };
        Ok(ExitCode::from(code))
    }
}

/// Run that has ended, with its report.
struct Made {
    summary: Summary,
    directory: PathBuf,
    /// Path of the report, or the reason why there is none.
    report: Result<PathBuf, ReportError>,
}

impl Made {
    fn to_text(&self) -> String {
        to_text(&self.summary, &self.directory, &self.report).to_string()
    }

    /// Returns 1 if the run did not reach its end, has no report, or is trusted and has a check
    /// that failed.
    fn code(&self) -> u8 {
        let summary = &self.summary;
        match summary.end {
            _ if self.report.is_err() => 1,
            End::Reached if summary.passed() => 0,
            End::Reached if !summary.untrusted.is_empty() => UNTRUSTED,
            _ => 1,
        }
    }

    fn to_json(&self) -> serde_json::Value {
        to_json(&self.summary, &self.directory, &self.report)
    }
}

fn make(
    (plan, places): (&Plan, &Places),
    directory: PathBuf,
    replace: bool,
    session: &str,
    interrupted: &Arc<AtomicBool>,
) -> Result<Made, Failure> {
    let mut display = Display::new(&plan.name);
    let options = RunOptions {
        directory: directory.clone(),
        replace,
        timeloom: std::env::current_exe()
            .map_err(|error| Failure::run(format!("finding this program: {error}")))?,
        places: Some(places.clone()),
        session: session.to_owned(),
        interrupted: Arc::clone(interrupted),
        log_json: super::logging::is_json(),
        progress: Box::new(move |progress| display.show(progress)),
        warn: Arc::new(|text| note!("timeloom: {text}")),
    };
    let summary = timeloom_run::run(plan, options)?;
    // The exit code must not change if the disk is full.
    let report = timeloom_run::report::write(&directory);
    note!();
    Ok(Made {
        summary,
        directory,
        report,
    })
}

/// Compares two runs of one scenario. Returns the result as text and as JSON, and the exit code.
fn verdict(first: &Made, second: &Made) -> Result<(String, serde_json::Value, u8), Failure> {
    let open = |made: &Made| RunDirectory::open(&made.directory).map_err(Failure::run);
    let compared = compare_runs(&open(first)?, &open(second)?).map_err(Failure::run)?;
    let finished = second.summary.end != End::Interrupted;
    let trusted = first.summary.untrusted.is_empty() && second.summary.untrusted.is_empty();
    let reproduces = finished && compared.difference.is_none();
    let mut text = format!("{}\n{}\n", first.to_text(), second.to_text());
    text += &match &compared.difference {
        Some(difference) => format!("the runs DIFFER, first in {}", shown(difference)),
        None if finished => {
            "the runs agree in every signal and event, and in the time of every printed line".into()
        }
        None => "the second run was stopped; so far the runs agree".to_owned(),
    };
    if let Some(difference) = &compared.text {
        text += &format!("\nthe printed text differs first in {}", shown(difference));
    }
    let json = serde_json::json!({
        "reproduces": reproduces,
        "difference": compared.difference,
        "text": compared.text,
        "first": first.to_json(),
        "second": second.to_json(),
    });
    let code = match (first.code(), second.code()) {
        (0, 0) if reproduces && compared.text.is_some() => TEXTS_DIFFER,
        (0, 0) if reproduces => 0,
        (0 | UNTRUSTED, 0 | UNTRUSTED) if !trusted => UNTRUSTED,
        _ => 1,
    };
    Ok((text, json, code))
}

/// Describes the first difference between two runs.
pub(super) fn shown(difference: &Difference) -> String {
    let row = |row: &Option<String>| row.clone().unwrap_or_else(|| "nothing".into());
    format!(
        "{} of {} at {} s of virtual time:\n  first:  {}\n  second: {}",
        difference.file,
        difference.of,
        difference.at_ns as f64 / 1e9,
        row(&difference.first),
        row(&difference.second)
    )
}

fn default_directory(name: &str) -> PathBuf {
    let now = jiff::Timestamp::now().strftime("%Y%m%d-%H%M%S");
    Path::new("runs").join(format!("{name}-{now}"))
}

/// Display of a run's progress: a line that changes on a terminal, and an occasional line
/// elsewhere.
struct Display {
    name: String,
    changes: bool,
    last: Option<StdInstant>,
}

impl Display {
    fn new(name: &str) -> Self {
        Self {
            name: name.to_owned(),
            changes: std::io::stderr().is_terminal(),
            last: None,
        }
    }

    fn show(&mut self, progress: &Progress) {
        let pause_s = if self.changes { 0.2 } else { 10.0 };
        let done = progress.virtual_time >= progress.planned;
        let due = self
            .last
            .is_none_or(|last| last.elapsed() >= StdDuration::from_secs_f64(pause_s));
        if !due && !done {
            return;
        }
        self.last = Some(StdInstant::now());
        let wall_s = progress.wall.as_s_f64();
        let share = if wall_s > 0.0 {
            100.0 * progress.paused.as_s_f64() / wall_s
        } else {
            0.0
        };
        let (name, done_s) = (&self.name, progress.virtual_time.as_s_f64());
        let line = format_args!(
            "{name}: virtual {done_s:.1} of {}, wall {wall_s:.1} s, {share:.1} % of it paused",
            progress.planned,
        );
        match self.changes {
            true => note_over(line),
            false => note_line(line),
        }
    }
}

fn to_text(summary: &Summary, directory: &Path, report: &Result<PathBuf, ReportError>) -> String {
    let untrusted = summary.untrusted.iter();
    let mut lines: Vec<String> = untrusted.map(|why| format!("UNTRUSTED: {why}")).collect();
    match &summary.end {
        End::Reached => lines.push(format!(
            "reached the end, {} of virtual time{}",
            summary.progress.planned,
            failing(&summary.checks)
        )),
        End::Interrupted => lines.push(format!(
            "stopped from outside at {} s of virtual time; the results so far are kept",
            summary.progress.virtual_time.as_s_f64()
        )),
        End::Failed(failure) => {
            let at_s = failure.at.as_ns() as f64 / 1e9;
            lines.push(format!("FAILED at {at_s} s of virtual time: {failure}"));
            if !failure.log.is_empty() {
                lines.push(format!("the log of {} ends:", failure.culprit));
            }
            lines.extend(failure.log.iter().map(|line| format!("  | {line}")));
            lines.push("the results so far are kept".to_owned());
        }
    }
    for check in &summary.checks {
        let verdict = match (check.applies, check.passed) {
            (false, _) => "does not apply",
            (true, true) => "holds",
            (true, false) => "FAILS",
        };
        lines.push(format!(
            "check {}: {verdict} ({}; {})",
            check.name, check.expression, check.explanation
        ));
    }
    for call in &summary.unhandled {
        lines.push(format!(
            "not virtualised: {} {} × {} ({})",
            call.program, call.call, call.count, call.outcome
        ));
    }
    let report = match report {
        Ok(path) => path.display().to_string(),
        Err(why) => format!("NOT WRITTEN: {why}"),
    };
    lines.push(format!(
        "results: {}\nreport:  {report}",
        directory.display()
    ));
    lines.join("\n")
}

/// Formats the names of failed checks, for the first line of the result.
fn failing(checks: &[CheckResult]) -> String {
    let applied = || checks.iter().filter(|check| check.applies);
    match applied().filter(|check| !check.passed).count() {
        0 => String::new(),
        failed => format!("; {failed} of {} checks FAIL", applied().count()),
    }
}

fn to_json(
    summary: &Summary,
    directory: &Path,
    report: &Result<PathBuf, ReportError>,
) -> serde_json::Value {
    let ns = |length: Duration| length.as_ns();
    let (end, culprit) = match &summary.end {
        End::Reached => ("reached", None),
        End::Interrupted => ("interrupted", None),
        End::Failed(failure) => ("failed", Some(failure.to_string())),
    };
    let failure = match &summary.end {
        End::Failed(failure) => Some(failure),
        _ => None,
    };
    serde_json::json!({
        "passed": summary.passed() && report.is_ok(),
        "end": end,
        "culprit": culprit,
        "failure": failure,
        "untrusted": summary.untrusted,
        "virtual_ns": ns(summary.progress.virtual_time),
        "wall_ns": ns(summary.progress.wall),
        "paused_ns": ns(summary.progress.paused),
        "checks": summary.checks,
        "directory": directory,
        "report": report.as_ref().ok(),
        "report_error": report.as_ref().err().map(ToString::to_string),
    })
}
