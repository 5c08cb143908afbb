//! Command `timeloom clean`: removes what killed runs have left behind.

use std::process::ExitCode;

use clap::Args;
use timeloom_run::exit::{Failure, say};

/// Remove what killed runs have left behind
///
/// Removes frozen programs, cgroups and sockets. Sessions whose supervisor is alive are not
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
