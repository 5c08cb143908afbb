//! `timeloom hold`: the line held by a program.

use std::ffi::OsString;
use std::io::Read;
use std::os::unix::process::ExitStatusExt;
use std::process::{Command, ExitCode};

use clap::Args;
use timeloom_exit::{Failure, say};
use timeloom_guest::hold;

/// Hold a testbed still for as long as a command runs
///
/// All of a run or of the machines of `timeloom agent` stand at one virtual instant until
/// the last that holds them lets go; holds may overlap. Prints that instant once all stand.
/// Without a command, holds until its standard input ends. Whoever ends this command, in
/// whatever way, lets go.
#[derive(Args)]
#[command(after_help = "Example: timeloom hold --name plc -- ./compute-the-physics")]
pub(crate) struct HoldCommand {
    /// The session; may be left out when only one runs
    #[arg(long)]
    name: Option<String>,
    /// What for, in the records
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
            // Whether it ends or breaks, it says nothing more.
            let _ = std::io::stdin().read_to_end(&mut Vec::new());
            return Ok(ExitCode::SUCCESS);
        };
        let ended = Command::new(program).args(arguments).status();
        drop(held);
        let ended = ended
            .map_err(|error| Failure::usage(format!("{}: {error}", program.to_string_lossy())))?;
        // As a shell says it.
        let killed = ended.signal().map(|signal| 128 + signal);
        let code = ended.code().or(killed).unwrap_or(1);
        Ok(ExitCode::from(code as u8))
    }
}
