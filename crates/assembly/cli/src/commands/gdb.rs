//! Command `timeloom gdb`: executes gdb with the setting that a debugger outside a session needs.

use std::ffi::OsString;
use std::os::unix::process::CommandExt;
use std::process::{Command, ExitCode};

use clap::Args;
use timeloom_exit::Failure;

/// Debug a program of a session with gdb
///
/// With --pid, attaches gdb to a running process of a session, from outside of the session. With a
/// program, starts the program under gdb in a new session (`timeloom exec -- gdb --args PROGRAM`).
///
/// Time-related calls reach Timeloom's code in the process as SIGSYS. This command makes gdb pass
/// that signal on without a stop; everything else of gdb is unchanged. While gdb is attached from
/// outside, the process cannot execute another program (use `timeloom exec --in HOST -- gdb`).
#[derive(Args)]
#[command(
    after_help = "Examples: timeloom gdb -p 4711\n          timeloom gdb ./controller --fast"
)]
pub(crate) struct Gdb {
    /// Process of a session, as numbered outside of it (`timeloom ps` lists them)
    #[arg(short, long, value_name = "PID", value_parser = clap::value_parser!(u32).range(1..))]
    pid: Option<u32>,
    /// Program to start and its arguments. With --pid, or if the first begins with `-`, arguments
    /// of gdb
    #[arg(
        required_unless_present = "pid",
        trailing_var_arg = true,
        allow_hyphen_values = true,
        value_name = "ARGUMENTS"
    )]
    arguments: Vec<OsString>,
}

impl Gdb {
    /// Replaces this process with gdb or, to start a program in a new session, with `timeloom
    /// exec`. Returns only if that is not possible.
    pub(crate) fn run(self) -> Result<ExitCode, Failure> {
        if !is_on_path(GDB) {
            return Err(Failure::not_built(format!(
                "cannot execute {GDB}: it is not on the PATH (Debian: apt-get install gdb)"
            )));
        }
        let (mut command, what) = match self.pid {
            Some(pid) => {
                let mut gdb = Command::new(GDB);
                gdb.args(["-iex", PASS_SIGSYS, "-p", &pid.to_string()]);
                (gdb, GDB)
            }
            None => {
                let own = std::env::current_exe()
                    .map_err(|error| Failure::machine(format!("finding timeloom: {error}")))?;
                let mut exec = Command::new(own);
                exec.args(["exec", "--", GDB]);
                let first = self.arguments.first().map(|word| word.as_encoded_bytes());
                if first.is_some_and(|word| !word.starts_with(b"-")) {
                    exec.arg("--args");
                }
                (exec, "timeloom exec")
            }
        };
        let error = command.args(self.arguments).exec();
        Err(Failure::machine(format!("cannot execute {what}: {error}")))
    }
}

/// Name of the debugger, which is searched for on the PATH.
const GDB: &str = "gdb";

/// Command of gdb by which SIGSYS reaches the process without a stop. A gdb in a session has it
/// already: Timeloom adds the same one when the session executes gdb.
const PASS_SIGSYS: &str = "handle SIGSYS nostop noprint pass";

/// Returns true if a directory of the PATH has a file of this name.
fn is_on_path(program: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path).any(|directory| directory.join(program).is_file())
}
