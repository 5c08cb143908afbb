//! Command `timeloom hold`: holds a session while another program runs.

use std::ffi::OsString;
use std::io::Read;
use std::os::unix::process::ExitStatusExt;
use std::process::{Command, ExitCode};

use clap::Args;
use timeloom_guest::hold;
use timeloom_run::exit::{Failure, say};

/// Hold a testbed at one virtual instant while a command runs
///
/// All processes of a run, or all machines of `timeloom agent`, are stopped at the same virtual
/// instant until the last hold is released; holds may overlap. Prints that instant once all are
/// stopped. Without a command, holds until its standard input ends. The hold is released when this
/// process ends, for whatever reason.
#[derive(Args)]
#[command(after_help = "Example: timeloom hold --name plc -- ./compute-the-physics")]
pub(crate) struct HoldCommand {
    /// Name of the session; may be omitted if only one is running
    #[arg(long)]
    name: Option<String>,
    /// Reason, for the records
    #[arg(long, default_value = "timeloom hold", value_name = "TEXT")]
    reason: String,
    /// Print the session's status as one JSON object
    #[arg(long)]
    json: bool,
    /// The command and its arguments
    #[arg(trailing_var_arg = true, value_name = "CMD")]
    command: Vec<OsString>,
}

impl HoldCommand {
    pub(crate) fn run(self) -> Result<ExitCode, Failure> {
        let (status, held) = hold(self.name.as_deref(), &self.reason)?;
        match self.json {
            true => say!("{}", serde_json::to_string(&status).map_err(Failure::run)?),
            false => say!("stands at {} ns", status.virtual_ns),
        }
        let Some((program, arguments)) = self.command.split_first() else {
            // An error has the same meaning as the end of the input.
            let _ = std::io::stdin().read_to_end(&mut Vec::new());
            return Ok(ExitCode::SUCCESS);
        };
        let ended = Command::new(program).args(arguments).status();
        drop(held);
        let ended = ended
            .map_err(|error| Failure::usage(format!("{}: {error}", program.to_string_lossy())))?;
        // Exits with the code that a shell would report.
        let killed = ended.signal().map(|signal| 128 + signal);
        let code = ended.code().or(killed).unwrap_or(1);
        Ok(ExitCode::from(code as u8))
    }
}
