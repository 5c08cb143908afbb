//! `timeloom serve`: the live view of runs, as a web page.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::Args;
use timeloom_run::exit::{Failure, say};
use timeloom_serve::{ServeError, Server, ServerOptions};

/// Show runs in a browser, while they go on and afterwards
///
/// Prints the address of the page; it contains a token, which is new each time. The page lists the
/// runs below a directory. Of a run it shows the clock, and which component holds it; signals,
/// attacks, events, hosts, programs and logs. It can pause, resume, step and dilate a run that goes
/// on; each of these becomes an event of the run. A second address gives access without these
/// actions.
///
/// Serves until it is interrupted, with low priority. Other machines reach it through a tunnel:
/// `ssh -L 8420:127.0.0.1:8420 THIS-MACHINE`.
#[derive(Args)]
#[command(after_help = "Example: timeloom serve runs   timeloom serve --read-only sweeps/area")]
pub(crate) struct Serve {
    /// Directory below which the runs lie
    #[arg(value_name = "DIR", default_value = "runs")]
    directory: PathBuf,
    /// Address to listen on, of the loopback interface; port 0 takes a free one
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:8420")]
    listen: SocketAddr,
    /// Only show: no page may act on a run
    #[arg(long)]
    read_only: bool,
    /// Print the addresses as one JSON object
    #[arg(long)]
    json: bool,
}

impl Serve {
    pub(crate) fn run(self) -> Result<ExitCode, Failure> {
        let options = ServerOptions {
            directory: self.directory,
            listen: self.listen,
            read_only: self.read_only,
        };
        let announce = |server: &Server| match self.json {
            true => say!(
                "{}",
                serde_json::json!({ "url": server.url(), "read_only_url": server.read_only_url() })
            ),
            false => say_addresses(server),
        };
        match timeloom_serve::serve(&options, announce).map_err(failure)? {}
    }
}

fn say_addresses(server: &Server) {
    if let Some(url) = server.url() {
        say!("{url}");
    }
    say!("to look only: {}", server.read_only_url());
}

fn failure(error: ServeError) -> Failure {
    match error.is_usage() {
        true => Failure::usage(error),
        false => Failure::machine(error),
    }
}
