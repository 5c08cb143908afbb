//! `timeloom engine`: process of one engine of a run, started by `timeloom run`; `leave`, `join`:
//! requests that an engine leave such a run or join it again.

use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::process::ExitCode;

use clap::Args;
use timeloom_exit::Failure;
use timeloom_guest::Request;

use super::control::Target;

/// Run one engine of a run's simulated network
///
/// Started by `timeloom run` if a scenario has `network.engines.processes = true`; the run
/// communicates with it over its standard input.
#[derive(Args)]
#[command(hide = true)]
pub(crate) struct Engine {
    /// Name of the engine in the scenario, shown in the list of processes
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
/// The engine is one of `[network.engines]` and a process. It handles all packets received by now
/// and sends the resulting packets. Then it announces its departure, and the links to its part go
/// down, as if they were unplugged: packets on its own cables and in its queues are lost. Returns
/// when it has left.
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
/// Another process creates its part of the network as of the present instant, and the links to it
/// come up. Returns after that.
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
