//! Command `timeloom report`: creates an HTML file about one or several runs.

use std::path::PathBuf;
use std::process::ExitCode;

use clap::Args;
use timeloom_run::exit::{Failure, note, say};
use timeloom_run::report::{LabelledRun, ReportError, ReportRequest, report};
use timeloom_time::Duration;

/// Write report.html about a run, and print its path
///
/// The tables `[[panel]]` in the run's scenario define the content; without any, the report has one
/// panel for each recorded unit. A killed run is recovered first.
#[derive(Args)]
#[command(
    after_help = "Example: timeloom report runs/calm --label \"no attack\" --with \"DoS at 22.5 s=runs/dos\""
)]
pub(crate) struct ReportCommand {
    /// The run directory
    directory: PathBuf,
    /// Label of this run in the report [default: its attacks, or its directory]
    #[arg(long)]
    label: Option<String>,
    /// Another run, drawn in the same charts; may be repeated
    #[arg(long, value_name = "LABEL=DIR", value_parser = labelled)]
    with: Vec<LabelledRun>,
    /// A run under virtual time, to show that a slow solver changes nothing; repeat it with slower
    /// solvers, the first is the reference
    #[arg(long, value_name = "LABEL=DIR", value_parser = labelled)]
    proof_on: Vec<LabelledRun>,
    /// A run in real time, to show that a slow solver changes its results; repeat it with slower
    /// solvers, the first is the reference
    #[arg(long, value_name = "LABEL=DIR", value_parser = labelled)]
    proof_off: Vec<LabelledRun>,
    /// Signal that is compared in the runs of --proof-on and --proof-off [default: the first that
    /// is drawn]
    #[arg(long, value_name = "PLANT.SIGNAL")]
    proof_signal: Option<String>,
    /// Tolerance of the comparison, in the signal's unit
    #[arg(long, value_name = "X", default_value_t = 1.0, value_parser = tolerance)]
    proof_tolerance: f64,
    /// Share of the time for which the tolerance must hold, from 0 to 1
    #[arg(long, value_name = "SHARE", default_value_t = 1.0, value_parser = share)]
    proof_share: f64,
    /// Initial virtual time that is not compared, e.g. `4 s`, because programs start during it at
    /// the machine's speed
    #[arg(long, value_name = "SPAN", default_value = "0 s")]
    proof_from: Duration,
    /// Remark for the reader, e.g. the reason for the tolerance; may be repeated
    #[arg(long = "note", value_name = "TEXT")]
    notes: Vec<String>,
    /// Path of the report [default: DIRECTORY/report.html]
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

impl ReportCommand {
    pub(crate) fn run(self) -> Result<ExitCode, Failure> {
        let written = report(&ReportRequest {
            directory: self.directory,
            label: self.label,
            with: self.with,
            proof_on: self.proof_on,
            proof_off: self.proof_off,
            proof_signal: self.proof_signal,
            proof_tolerance: self.proof_tolerance,
            proof_share: self.proof_share,
            proof_from: self.proof_from,
            notes: self.notes,
            output: self.output,
        })
        .map_err(failure)?;
        for remark in &written.remarks {
            note!("timeloom: {remark}");
        }
        let path = written.path.display();
        if self.json {
            say!("{}", serde_json::json!({ "report": path.to_string() }));
        } else {
            say!("{path}");
        }
        Ok(ExitCode::SUCCESS)
    }
}

pub(super) fn failure(error: ReportError) -> Failure {
    if error.is_usage() {
        Failure::usage(error)
    } else {
        Failure::run(error)
    }
}

/// Parses `LABEL=DIRECTORY`. The text is split at the last `=`, because a label such as `gain = 2`
/// is likelier to contain one than a directory.
fn labelled(text: &str) -> Result<LabelledRun, Failure> {
    match text.rsplit_once('=') {
        Some((label, directory)) if !label.is_empty() && !directory.is_empty() => Ok(LabelledRun {
            label: label.to_owned(),
            directory: directory.into(),
        }),
        _ => Err(Failure::usage(
            "write LABEL=DIR, as in `\"DoS at 22.5 s=runs/dos\"`",
        )),
    }
}

fn share(text: &str) -> Result<f64, Failure> {
    match text.parse::<f64>() {
        Ok(number) if (0.0..=1.0).contains(&number) => Ok(number),
        _ => Err(Failure::usage("write a number from 0 to 1")),
    }
}

fn tolerance(text: &str) -> Result<f64, Failure> {
    match text.parse::<f64>() {
        Ok(number) if number >= 0.0 && number.is_finite() => Ok(number),
        _ => Err(Failure::usage("write a number that is not negative")),
    }
}
