//! Command `timeloom bridge`: connects another simulator, which grants a run its time.
//!
//! The bridges are written in Python, like the packages of those simulators. This module finds an
//! interpreter that has the simulator's package, and provides Timeloom's package if that is
//! missing.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};
use std::sync::atomic::AtomicBool;

use clap::{Args, Subcommand};
use timeloom_run::exit::Failure;
use timeloom_run::{ProvidedPackage, PythonCommand};

/// Let another simulator grant a run its time, and exchange signals with it
///
/// The run's time must move by grants (`mode = "stepped"`), and the run must have a plant
/// `timeloom.exchange` for the exchanged signals. The run is stopped while the other simulator
/// computes.
#[derive(Subcommand)]
pub(crate) enum Bridge {
    Helics(Helics),
    Mosaik(Mosaik),
}

/// Join a HELICS federation as one federate
///
/// At each step the run gets the values of the federation, and the federation gets those of the
/// run. Exits with 0 when the run has ended. Exits with 1 and a federate's name if the federation
/// broke or that federate did not answer in time. Needs the Python package `helics`.
#[derive(Args)]
#[command(after_help = "Example: timeloom bridge helics examples/cosim/helics.json")]
pub(crate) struct Helics {
    /// File that names session, signals and federation; for its keys see
    /// `python -m timeloom.bridge_helics --help`
    config: PathBuf,
    #[command(flatten)]
    python: Python,
}

/// Run as a simulator of a mosaik world, which starts this command with its address
///
/// The world's script calls `world.start("Timeloom", exchange=…, session=…, step_s=…)`. Exits with
/// 1 if mosaik sends no request for too long. Needs the Python package `mosaik-api-v3`.
#[derive(Args)]
#[command(
    after_help = "Example, in a world: {\"Timeloom\": {\"cmd\": \"timeloom bridge mosaik %(addr)s\"}}"
)]
pub(crate) struct Mosaik {
    /// Address at which mosaik listens
    #[arg(value_name = "HOST:PORT")]
    address: String,
    #[command(flatten)]
    python: Python,
}

#[derive(Args)]
struct Python {
    /// Python interpreter that has the package [default: $TIMELOOM_PYTHON, else .venv-bridges in
    /// this directory or one above it, else python3]
    #[arg(long, value_name = "PROGRAM")]
    python: Option<OsString>,
}

impl Bridge {
    pub(crate) fn run(self) -> Result<ExitCode, Failure> {
        match self {
            Self::Helics(bridge) => {
                let config = bridge.config.into_os_string();
                bridge.python.run("helics", "helics", config)
            }
            Self::Mosaik(bridge) => {
                let address = bridge.address.into();
                bridge.python.run("mosaik", "mosaik_api_v3", address)
            }
        }
    }
}

impl Python {
    /// Runs the bridge `name` in Python until it ends.
    fn run(self, name: &str, package: &str, argument: OsString) -> Result<ExitCode, Failure> {
        let python = self.find();
        let shown = python.to_string_lossy().into_owned();
        let has = Command::new(&python)
            .args(["-c", &format!("import {package}")])
            .stdin(Stdio::null())
            .stderr(Stdio::null())
            .status()
            .map_err(|error| Failure::usage(format!("{shown}: {error}")))?;
        if !has.success() {
            return Err(Failure::usage(format!(
                "{shown} has no package `{package}`; give --python, or run `make \
                 .venv-bridges/ready` in Timeloom's sources"
            )));
        }
        let here = std::env::current_dir().map_err(Failure::run)?;
        let nothing = BTreeMap::new();
        let command = PythonCommand {
            run: std::slice::from_ref(&shown),
            env: &nothing,
            inherit: &[],
            directory: &here,
            user: None,
            is_limited: false,
        };
        // Ctrl-C ends this process, and its child with it.
        let package = ProvidedPackage::to(command, &AtomicBool::new(false))
            .map_err(|error| Failure::run(format!("the package `timeloom`: {error}")))?;
        let ended = Command::new(&python)
            .args(["-m", &format!("timeloom.bridge_{name}")])
            .arg(argument)
            .envs(package.path.as_ref().map(|path| ("PYTHONPATH", path)))
            .status()
            .map_err(|error| Failure::usage(format!("{shown}: {error}")))?;
        let killed = ended.signal().map(|signal| 128 + signal);
        let code = ended.code().or(killed).unwrap_or(1);
        Ok(ExitCode::from(code as u8))
    }

    fn find(self) -> OsString {
        let named = self.python.or_else(|| std::env::var_os("TIMELOOM_PYTHON"));
        named.unwrap_or_else(|| {
            let above = |from: &Path| {
                let mut places = from.ancestors();
                places.find_map(|place| {
                    Some(place.join(".venv-bridges/bin/python")).filter(|p| p.exists())
                })
            };
            let here = std::env::current_dir().ok().and_then(|here| above(&here));
            let own = || above(&std::env::current_exe().ok()?);
            here.or_else(own)
                .map_or_else(|| "python3".into(), OsString::from)
        })
    }
}
