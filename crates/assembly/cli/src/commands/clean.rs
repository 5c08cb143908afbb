//! `timeloom clean`: removes what a killed run left behind.

use std::process::ExitCode;

use clap::Args;
use timeloom_exit::{Failure, say};

/// Remove what a killed run left behind
///
/// Frozen programs, cgroups, sockets. Sessions whose supervisor lives are not
/// touched.
#[derive(Args)]
pub(crate) struct Clean {
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

impl Clean {
    pub(crate) fn run(self) -> Result<ExitCode, Failure> {
        let found = timeloom_guest::clean()?;
        if self.json {
            let object = serde_json::json!({
                "processes": found.processes, "cgroups": found.cgroups, "sockets": found.sockets,
            });
            say!("{object}");
        } else if found == timeloom_guest::Leftovers::default() {
            say!("nothing was left behind");
        } else {
            say!(
                "removed {} processes, {} cgroups, {} sockets",
                found.processes.len(),
                found.cgroups.len(),
                found.sockets.len()
            );
        }
        Ok(ExitCode::SUCCESS)
    }
}
