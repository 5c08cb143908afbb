//! Command `timeloom gdb`: executes gdb with the setting that a debugger outside a session needs.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::process::CommandExt;
use std::process::{Command, ExitCode};

use clap::Args;
use timeloom_run::exit::Failure;

use super::search_path::on_path;

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
    pub(crate) fn run(mut self) -> Result<ExitCode, Failure> {
        if self.pid.is_none() {
            self.pid = take_process(&mut self.arguments)?;
        }
        if on_path(GDB).is_none() {
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

/// Takes the process to attach to out of the arguments of gdb, in any of gdb's spellings.
fn take_process(arguments: &mut Vec<OsString>) -> Result<Option<u32>, Failure> {
    // If the first word is no option, it is a program, and the others are its arguments.
    let own = arguments
        .first()
        .is_some_and(|word| word.as_bytes().starts_with(b"-"));
    let end = ["--args", "-args", "--"];
    let options = arguments
        .iter()
        .take_while(|word| own && !end.iter().any(|end| *word == *end));
    let mut found = options
        .enumerate()
        .filter_map(|(at, word)| Some((at, process_option(word)?)));
    let Some((at, value)) = found.next() else {
        return Ok(None);
    };
    let words = if value.is_some() { 1 } else { 2 };
    let value = value.or(arguments.get(at + 1).map(OsString::as_os_str));
    let number = value.and_then(|value| value.to_str()?.parse().ok());
    let Some(pid @ 1..) = number else {
        let value = value.unwrap_or_default().display();
        return Err(Failure::usage(format!(
            "cannot attach to process `{value}`: it is not a process number \
             (use `timeloom gdb -p PID`; `timeloom ps` lists the processes)"
        )));
    };
    arguments.drain(at..at + words);
    Ok(Some(pid))
}

/// Returns the value in a word that is gdb's option `-p`, in any spelling; `Some(None)` if the next
/// word has the value, and `None` if the word is another option or argument.
fn process_option(word: &OsStr) -> Option<Option<&OsStr>> {
    let word = word.as_bytes();
    let name = word.strip_prefix(b"--").or(word.strip_prefix(b"-"))?;
    let value = match name {
        b"p" | b"pi" | b"pid" => return Some(None),
        [b'p', digits @ ..] if digits.first().is_some_and(u8::is_ascii_digit) => digits,
        _ => [&b"p="[..], b"pi=", b"pid="]
            .iter()
            .find_map(|prefix| name.strip_prefix(*prefix))?,
    };
    Some(Some(OsStr::from_bytes(value)))
}

/// Name of the debugger, which is searched for on the PATH.
const GDB: &str = "gdb";

/// Command of gdb by which SIGSYS reaches the process without a stop. A gdb that a session executes
/// gets the same command from Timeloom.
const PASS_SIGSYS: &str = "handle SIGSYS nostop noprint pass";
