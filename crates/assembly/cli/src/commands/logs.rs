//! `timeloom logs`: what the programs of a run print, by virtual time.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use clap::Args;
use timeloom_exit::{Failure, say};
use timeloom_guest::{ControlError, Request, connect};
use timeloom_results::{LogLine, MergedLogs, RunDirectory};

/// Show what programs of a run printed, by virtual time
///
/// Of the run that is going on; if none is, of the newest under runs/. Each line
/// begins with virtual seconds since the run began.
#[derive(Args)]
#[command(after_help = "Example: timeloom logs -f plc scada")]
pub(crate) struct Logs {
    /// Only these programs, as the scenario names them; plants as plant-NAME
    /// [default: all programs]
    #[arg(value_name = "PROGRAM")]
    programs: Vec<String>,
    /// Go on while the run does
    #[arg(short, long)]
    follow: bool,
    /// The session of a run that is going on
    #[arg(long)]
    name: Option<String>,
    /// A run directory, of a run that has ended or goes on
    #[arg(long, value_name = "DIR", conflicts_with = "name")]
    run: Option<PathBuf>,
    /// Print one JSON object per line
    #[arg(long)]
    json: bool,
}

impl Logs {
    pub(crate) fn run(self) -> Result<ExitCode, Failure> {
        let which = Which::find(self.name.as_deref(), self.run.as_deref())?;
        let failed =
            |error| Failure::run(format!("logs of {}: {error}", which.directory.display()));
        let mut logs = MergedLogs::new(&which.directory, &self.programs);
        let mut is_over = !self.follow;
        if is_over || which.has_ended() {
            let there = logs.names().map_err(failed)?;
            let missing = |name: &&String| !there.contains(name);
            if let Some(program) = self.programs.iter().find(missing) {
                return Err(Failure::usage(format!(
                    "there is no log of `{program}`; there are: {}",
                    there.join(", ")
                )));
            }
        }
        loop {
            // Before the last look at what was written.
            is_over = is_over || which.has_ended();
            if is_over {
                logs.complete();
            }
            logs.look().map_err(failed)?;
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

/// Whose logs.
struct Which {
    directory: PathBuf,
    /// The session, while it runs.
    session: Option<String>,
}

impl Which {
    fn find(name: Option<&str>, run: Option<&Path>) -> Result<Self, Failure> {
        if let Some(run) = run {
            let directory = RunDirectory::open(run).map_err(Failure::usage)?;
            return Ok(Self {
                directory: directory.path().to_owned(),
                session: None,
            });
        }
        match connect(name, &Request::Query) {
            Ok(status) => match status.directory {
                Some(directory) => Ok(Self {
                    directory,
                    session: Some(status.name),
                }),
                None => Err(Failure::usage(format!(
                    "session `{}` is no run: what it prints is shown where it was started",
                    status.name
                ))),
            },
            Err(ControlError::NoSession {
                name: None,
                running,
            }) if running.is_empty() => newest(Path::new("runs"))
                .map(|directory| Self {
                    directory,
                    session: None,
                })
                .ok_or_else(|| {
                    Failure::usage("no run is going on, and runs/ has none; say --run DIR")
                }),
            Err(error) => Err(error.into()),
        }
    }

    /// Whether nothing more is written.
    fn has_ended(&self) -> bool {
        match &self.session {
            Some(session) => matches!(
                connect(Some(session), &Request::Query),
                Err(ControlError::NoSession { .. })
            ),
            None => {
                let manifest = RunDirectory::open(&self.directory).and_then(|run| run.manifest());
                manifest.is_ok_and(|manifest| manifest.ended.is_some())
            }
        }
    }
}

/// The run that was begun last.
fn newest(runs: &Path) -> Option<PathBuf> {
    let entries = fs::read_dir(runs).ok()?.flatten();
    let begun = entries.filter_map(|entry| {
        let logs = entry.path().join("logs");
        Some((fs::metadata(logs).ok()?.modified().ok()?, entry.path()))
    });
    begun.max().map(|(_, path)| path)
}

/// How often it is looked for more.
const LOOK_EVERY: Duration = Duration::from_millis(100);
