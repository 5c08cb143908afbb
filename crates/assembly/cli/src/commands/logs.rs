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
            // Before the last look at what was written.
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

/// Whose logs.
struct Which {
    run: RunDirectory,
    /// The session, while it runs.
    session: Option<String>,
}

impl Which {
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
                    "session `{}` is no run: what it prints is shown where it was started",
                    status.name
                ))),
            },
            Err(ControlError::NoSession {
                name: None,
                running,
            }) if running.is_empty() => newest(Path::new("runs"))
                .map(|run| Self { run, session: None })
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
                let manifest = self.run.manifest();
                manifest.is_ok_and(|manifest| manifest.ended.is_some())
            }
        }
    }
}

/// The run that was begun last.
fn newest(runs: &Path) -> Option<RunDirectory> {
    let entries = fs::read_dir(runs).ok()?.flatten();
    let begun = entries.filter_map(|entry| {
        let run = RunDirectory::open(entry.path()).ok()?;
        Some((run.begun()?, run))
    });
    let last = begun.max_by_key(|(begun, _)| *begun);
    last.map(|(_, run)| run)
}

/// How often it is looked for more.
const LOOK_EVERY: Duration = Duration::from_millis(100);
