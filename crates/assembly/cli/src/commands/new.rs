//! Command `timeloom new`: creates a directory with an experiment to start from.

use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::{Args, ValueEnum};
use timeloom_run::exit::{Failure, say};

/// Create a directory with an experiment to start from
///
/// The directory contains a scenario, `experiment.toml`, and its programs, all of which may be
/// changed. The experiment runs as it is, and needs only Python 3.11 or later.
#[derive(Args)]
#[command(after_help = "Example: timeloom new tank plant1; timeloom run plant1/experiment.toml")]
pub(crate) struct New {
    /// Kind of experiment
    kind: Kind,
    /// Directory to create; an existing one must be empty
    directory: PathBuf,
}

#[derive(Clone, Copy, ValueEnum)]
enum Kind {
    /// A plant in twenty lines of Python, and a controller that keeps its level
    Tank,
    /// Two hosts across a simulated network that is slow, full and loses packets
    Network,
    /// The tank, and an attacker that forges commands to its valve
    Attack,
    /// An arm with a motor, and a controller that moves it fifty times a second
    Robot,
}

/// Files of a directory, as pairs of name and content.
type Files = &'static [(&'static str, &'static str)];

macro_rules! template {
    ($($name:literal from $path:literal),* $(,)?) => {
        &[$(($name, include_str!(concat!("../../templates/", $path)))),*]
    };
}

const TANK: &str = include_str!("../../../../../examples/hello/tank.py");
const KEEP_LEVEL: &str = include_str!("../../../../../examples/hello/keep_level.py");

impl Kind {
    fn files(self) -> Vec<(&'static str, &'static str)> {
        let own: Files = match self {
            Self::Tank => template!["experiment.toml" from "tank/experiment.toml"],
            Self::Network => template![
                "experiment.toml" from "network/experiment.toml",
                "echo.py" from "network/echo.py",
                "probe.py" from "network/probe.py",
            ],
            Self::Attack => template![
                "experiment.toml" from "attack/experiment.toml",
                "forge.py" from "attack/forge.py",
            ],
            Self::Robot => template![
                "experiment.toml" from "robot/experiment.toml",
                "arm.py" from "robot/arm.py",
                "move_arm.py" from "robot/move_arm.py",
            ],
        };
        let shared: Files = match self {
            Self::Tank | Self::Attack => &[("tank.py", TANK), ("keep_level.py", KEEP_LEVEL)],
            Self::Network | Self::Robot => &[],
        };
        own.iter().chain(shared).copied().collect()
    }
}

impl New {
    pub(crate) fn run(self) -> Result<ExitCode, Failure> {
        let directory = &self.directory;
        refuse_if_used(directory)?;
        let failed = |path: &Path| {
            let path = path.display().to_string();
            move |error| Failure::run(format!("{path}: {error}"))
        };
        fs::create_dir_all(directory).map_err(failed(directory))?;
        let files = self.kind.files();
        for (name, text) in &files {
            let path = directory.join(name);
            fs::write(&path, text).map_err(failed(&path))?;
        }
        let names: Vec<&str> = files.iter().map(|(name, _)| *name).collect();
        let scenario = directory.join(names[0]);
        say!("made {}: {}", directory.display(), names.join(", "));
        say!("  timeloom check {}", scenario.display());
        say!("  timeloom run {}   (as root)", scenario.display());
        Ok(ExitCode::SUCCESS)
    }
}

/// Fails if the directory contains files, which must not be overwritten.
fn refuse_if_used(directory: &Path) -> Result<(), Failure> {
    let first = match fs::read_dir(directory) {
        Ok(mut entries) => entries.next(),
        Err(error) if error.kind() == ErrorKind::NotFound => None,
        Err(error) => {
            let place = directory.display();
            return Err(Failure::usage(format!("{place}: {error}")));
        }
    };
    match first {
        None => Ok(()),
        Some(_) => Err(Failure::usage(format!(
            "{} exists and is not empty; name a directory that does not exist yet",
            directory.display()
        ))),
    }
}
