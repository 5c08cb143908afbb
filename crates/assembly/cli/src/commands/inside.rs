//! Commands `timeloom shell` and `timeloom exec --in`: run a command inside a running session, in
//! the network of one of its hosts and on that host's clock.

use std::ffi::OsString;
use std::io::{IsTerminal, stderr, stdin, stdout};
use std::os::fd::AsFd;
use std::process::ExitCode;

use clap::Args;
use timeloom_guest::{EnterCommand, enter};
use timeloom_run::exit::Failure;
use timeloom_sys::environment;

use super::identity::Identity;
use super::terminal::Terminal;

/// Open a shell on a host of a running session
///
/// The shell is in the host's network and on the host's clock. Programs that are started in it see
/// virtual time. While the session or the host is paused, they are stopped, and so is the shell
/// (`timeloom resume` in another terminal). The shell ends with the session.
///
/// Typing takes real time: if time skips, it advances while the shell waits for a key.
#[derive(Args)]
#[command(after_help = "Example: timeloom shell plc")]
pub(crate) struct Shell {
    /// Name of the host; omitted for a session of `timeloom exec`, which has only one
    host: Option<String>,
    /// Name of the session; may be omitted if only one is running
    #[arg(long)]
    name: Option<String>,
    #[command(flatten)]
    identity: Identity,
}

impl Shell {
    pub(crate) fn run(self) -> Result<ExitCode, Failure> {
        let shell = std::env::var("SHELL").unwrap_or_default();
        let shell = match shell.is_empty() {
            true => "/bin/sh".to_owned(),
            false => shell,
        };
        run(
            self.host,
            self.name.as_deref(),
            &[shell.into()],
            &self.identity,
        )
    }
}

/// Runs `command` on the host, and returns the command's exit status.
pub(crate) fn run(
    host: Option<String>,
    session: Option<&str>,
    command: &[OsString],
    identity: &Identity,
) -> Result<ExitCode, Failure> {
    let directory = std::env::current_dir()
        .map_err(|error| Failure::run(format!("finding the working directory: {error}")))?;
    let text = |word: &OsString| {
        let word = word.clone().into_string();
        word.map_err(|word| Failure::usage(format!("`{}` is not UTF-8", word.to_string_lossy())))
    };
    let is_interactive = stdin().is_terminal() && stdout().is_terminal();
    let entry = EnterCommand {
        host,
        command: command.iter().map(text).collect::<Result<_, _>>()?,
        directory: text(&directory.into_os_string())?,
        env: std::env::vars_os()
            .filter(|(name, _)| name != environment::LOG)
            .filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)))
            .collect(),
        terminal: is_interactive,
        user: identity.user.as_ref().map(ToString::to_string),
        capabilities: identity
            .capability
            .iter()
            .map(ToString::to_string)
            .collect(),
    };
    let status = if is_interactive {
        let terminal = Terminal::open()
            .map_err(|error| Failure::run(format!("making a terminal: {error}")))?;
        let theirs = terminal.theirs();
        let inside = enter(session, entry, [theirs, theirs, theirs])?;
        terminal.relay(|| inside.wait())
    } else {
        let streams = (stdin(), stdout(), stderr());
        let streams = [streams.0.as_fd(), streams.1.as_fd(), streams.2.as_fd()];
        enter(session, entry, streams)?.wait()
    };
    match status {
        Some(status) => Ok(ExitCode::from(status as u8)),
        None => Err(Failure::run(
            "the session has ended, and the command with it",
        )),
    }
}
