//! `timeloom engine`: the process of one engine of a run, which `timeloom run` starts.

use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::process::ExitCode;

use clap::Args;
use timeloom_exit::Failure;

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
