//! Command `timeloom engine`: process of one engine of a run, which `timeloom run` starts. Commands
//! `leave` and `join`: requests that an engine leave a run, or join it again.

use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::process::ExitCode;

use clap::Args;
use timeloom_guest::Request;
use timeloom_run::exit::Failure;

use super::control::Target;

/// Run one engine of a run's simulated network
///
/// Started by `timeloom run` if a scenario has `network.engines.processes = true`. The run
/// communicates with this process over its standard input.
#[derive(Args)]
#[command(hide = true)]
pub(crate) struct Engine {
    /// Name of the engine in the scenario, which the list of processes shows
    name: String,
}

impl Engine {
    pub(crate) fn run(self) -> Result<ExitCode, Failure> {
        let stdin = std::io::stdin().as_fd().try_clone_to_owned();
        let stream = stdin.map(UnixStream::from);
        let stream = stream.ok().filter(|stream| stream.peer_addr().is_ok());
        let Some(stream) = stream else {
            let what = "`timeloom run` starts engines, with a socket as their standard input";
            return Err(Failure::usage(what));
        };
        match timeloom_run::serve_engine(stream) {
            Ok(()) => Ok(ExitCode::SUCCESS),
            Err(why) => Err(Failure::run(format!("engine {}: {why}", self.name))),
        }
    }
}

/// Let an engine of a running experiment's simulated network leave, while the rest goes on
///
/// The engine must be one of `[network.engines]` that is a process. It handles all packets that it
/// has received, and sends the packets that result from them. Then it announces its departure, and
/// the links to its part of the network go down as if they were unplugged: packets on its own
/// cables and in its queues are lost. The command returns when the engine has left.
#[derive(Args)]
#[command(after_help = "Example: timeloom leave east; timeloom join east")]
pub(crate) struct Leave {
    /// Name of the engine in the scenario
    engine: String,
    #[command(flatten)]
    target: Target,
}

impl Leave {
    pub(crate) fn run(self) -> Result<ExitCode, Failure> {
        let engine = self.engine;
        self.target.send(&Request::Leave { engine })
    }
}

/// Let an engine that has left a running experiment join it again
///
/// Another process simulates the engine's part of the network from the present instant on, and the
/// links to that part come up. The command returns after that.
#[derive(Args)]
pub(crate) struct Join {
    /// Name of the engine in the scenario
    engine: String,
    #[command(flatten)]
    target: Target,
}

impl Join {
    pub(crate) fn run(self) -> Result<ExitCode, Failure> {
        let engine = self.engine;
        self.target.send(&Request::Join { engine })
    }
}
