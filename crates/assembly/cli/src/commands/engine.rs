//! `timeloom engine`: the process of one engine of a run, which `timeloom run` starts; `leave`,
//! `join`: requests that one leave such a run or join it again.

use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::process::ExitCode;

use clap::Args;
use timeloom_exit::Failure;
use timeloom_guest::Request;

use super::control::Target;

/// Be one engine of a run's simulated network
///
/// `timeloom run` starts it where a scenario says `network.engines.processes = true`, and speaks
/// with it over its standard input.
#[derive(Args)]
#[command(hide = true)]
pub(crate) struct Engine {
    /// What the scenario calls it; for those who look at the list of processes
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
/// The engine is one of `[network.engines]` and a process. What it has by now is seen to, and what
/// that leads to goes out. Then it says farewell, and the links to its part go down, as if they
/// were unplugged: what is on its own cables and in its queues is gone. Returns when it has left.
#[derive(Args)]
#[command(after_help = "Example: timeloom leave east; timeloom join east")]
pub(crate) struct Leave {
    /// What the scenario calls it
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
/// Another process makes its part of the network as of the present instant, and the links to it
/// come up. Returns when they have.
#[derive(Args)]
pub(crate) struct Join {
    /// What the scenario calls it
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
