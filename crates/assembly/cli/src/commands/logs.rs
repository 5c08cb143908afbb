//! Command `timeloom logs`: shows the output of a run's programs, ordered by virtual time.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use clap::Args;
use timeloom_guest::{ControlError, Request, connect};
use timeloom_results::{LogLine, MergedLogs, RunDirectory};
use timeloom_run::exit::{Failure, say};

/// Show the output of a run's programs, by virtual time
///
/// Shows the current run or, if there is none, the newest run under runs/. Each line begins with
/// the virtual seconds since the run began.
#[derive(Args)]
#[command(after_help = "Example: timeloom logs -f plc scada")]
pub(crate) struct Logs {
    /// Only these programs, by their names in the scenario; a plant is plant-NAME [default: all
    /// programs]
    #[arg(value_name = "PROGRAM")]
    programs: Vec<String>,
    /// Continue until the run ends
    #[arg(short, long)]
    follow: bool,
    /// Session of a current run
    #[arg(long)]
    name: Option<String>,
    /// Directory of a finished or current run
    #[arg(long, value_name = "DIR", conflicts_with = "name")]
    run: Option<PathBuf>,
    /// Print one JSON object per line
    #[arg(long)]
    json: bool,
}

impl Logs {
    pub(crate) fn run(self) -> Result<ExitCode, Failure> {
        let which = LoggedRun::find(self.name.as_deref(), self.run.as_deref())?;
        let failed = |error| Failure::run(format!("logs of {}: {error}", which.run.shown()));
        let mut logs = MergedLogs::new(&which.run, &self.programs);
        let mut is_over = !self.follow;
        if is_over || which.has_ended() {
            let there = logs.names().map_err(Failure::run)?;
            let missing = |name: &&String| !there.contains(name);
            if let Some(program) = self.programs.iter().find(missing) {
                return Err(Failure::usage(format!(
                    "there is no log of `{program}`; there are: {}",
                    there.join(", ")
                )));
            }
        }
        loop {
            // Checked before the last read, so that no output is missed.
            is_over = is_over || which.has_ended();
            if is_over {
                logs.complete();
            }
            logs.look().map_err(Failure::run)?;
            while let Some(line) = logs.next_line().map_err(failed)? {
                self.say(&line);
            }
            if is_over {
                return Ok(ExitCode::SUCCESS);
            }
            std::thread::sleep(LOOK_EVERY);
        }
    }

    fn say(&self, line: &LogLine) {
        if self.json {
            say!(
                "{}",
                serde_json::json!({
                    "t_ns": line.at.as_ns(), "program": line.program, "text": line.printed(),
                })
            );
        } else if self.programs.len() == 1 {
            say!("{}", line.text);
        } else {
            let stamp = line.text.strip_suffix(line.printed()).unwrap_or_default();
            say!("{stamp}{}: {}", line.program, line.printed());
        }
    }
}

/// Run whose logs are shown.
struct LoggedRun {
    run: RunDirectory,
    /// Name of the run's session while it runs; `None` for a finished run.
    session: Option<String>,
}

impl LoggedRun {
    fn find(name: Option<&str>, run: Option<&Path>) -> Result<Self, Failure> {
        let opened = |path: &Path| RunDirectory::open(path).map_err(Failure::usage);
        if let Some(run) = run {
            return Ok(Self {
                run: opened(run)?,
                session: None,
            });
        }
        match connect(name, &Request::Query) {
            Ok(status) => match status.directory {
                Some(directory) => Ok(Self {
                    run: opened(&directory)?,
                    session: Some(status.name),
                }),
                None => Err(Failure::usage(format!(
                    "session `{}` is not a run: its output is in the terminal that started it",
                    status.name
                ))),
            },
            Err(ControlError::NoSession {
                name: None,
                running,
            }) if running.is_empty() => newest(Path::new("runs"))
                .map(|run| Self { run, session: None })
                .ok_or_else(|| {
                    Failure::usage("no run is in progress, and runs/ contains none; give --run DIR")
                }),
            Err(error) => Err(error.into()),
        }
    }

    /// Returns true if nothing more is written to the logs.
    fn has_ended(&self) -> bool {
        match &self.session {
            Some(session) => matches!(
                connect(Some(session), &Request::Query),
                Err(ControlError::NoSession { .. })
            ),
            None => {
                let manifest = self.run.manifest();
                manifest.is_ok_and(|manifest| manifest.ended.is_some())
            }
        }
    }
}

/// Returns the run below `runs` that was started last.
fn newest(runs: &Path) -> Option<RunDirectory> {
    let entries = fs::read_dir(runs).ok()?.flatten();
    let begun = entries.filter_map(|entry| {
        let run = RunDirectory::open(entry.path()).ok()?;
        Some((run.begun()?, run))
    });
    let last = begun.max_by_key(|(begun, _)| *begun);
    last.map(|(_, run)| run)
}

/// Polling interval for new output.
const LOOK_EVERY: Duration = Duration::from_millis(100);
