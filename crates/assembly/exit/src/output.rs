//! Output of lines on stdout, whose reader may close it, and on stderr.
//!
//! Much of the output was written by programs, other machines and other users' run directories. It
//! is filtered in this module only: on stderr always, since diagnostics are read by people; on
//! stdout if it is a terminal. Output to a file or a pipe is data and stays unchanged.

use std::fmt::Arguments;
use std::io::{ErrorKind, IsTerminal, Write};
use std::sync::OnceLock;

use timeloom_results::{visible, visible_in_colours};

/// Status that a shell reports for a program ended by SIGPIPE: 128 + 13.
const BROKEN_PIPE: i32 = 141;
/// Exit code for lost output: the run has failed.
const FAILED: i32 = 1;

/// Prints a line like `println!`, but does not panic when the reader is gone.
///
/// A closed pipe (`timeloom schema | head`) ends the process silently, with the status that a shell
/// reports for a program ended by SIGPIPE. The signal itself stays ignored: the same process writes
/// to sockets and to plants. Any other failure, such as a full disk, is reported on stderr.
#[macro_export]
macro_rules! say {
    () => { $crate::say!("") };
    ($($text:tt)*) => { $crate::say_line(::std::format_args!($($text)*)) };
}

/// Variant of [`say!`] for formatted arguments.
pub fn say_line(line: Arguments<'_>) {
    let Err(error) = try_say(line) else { return };
    if error.kind() == ErrorKind::BrokenPipe {
        std::process::exit(BROKEN_PIPE);
    }
    note_line(format_args!("timeloom: writing to stdout: {error}"));
    std::process::exit(FAILED);
}

/// Prints a line on stderr and makes terminal control characters in it visible.
pub fn note_line(line: Arguments<'_>) {
    to_stderr(&visible(&line.to_string()));
}

/// Prints, like [`note_line`], a text that Timeloom has coloured.
pub fn note_in_colours(text: &str) {
    to_stderr(&visible_in_colours(text));
}

fn to_stderr(line: &str) {
    // A closed stderr does not end the process.
    let _ = writeln!(std::io::stderr().lock(), "{line}");
}

/// Prints a line; for callers that end with a verdict of their own even if this fails.
///
/// # Errors
/// Returns the error of stdout.
pub fn try_say(line: Arguments<'_>) -> std::io::Result<()> {
    static IS_TERMINAL: OnceLock<bool> = OnceLock::new();
    let mut stdout = std::io::stdout().lock();
    if *IS_TERMINAL.get_or_init(|| std::io::stdout().is_terminal()) {
        stdout.write_all(visible(&line.to_string()).as_bytes())?;
    } else {
        stdout.write_fmt(line)?;
    }
    stdout.write_all(b"\n")?;
    stdout.flush()
}
