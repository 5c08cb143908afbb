//! Output of lines on stdout and stderr. The reader of stdout may close it early.
//!
//! Much of the output comes from programs, other machines and other users' run directories. This
//! module is the only place that filters it, and the only one that prints: a test of
//! `timeloom-house` refuses `println!`, `eprintln!` and writes to stderr elsewhere.
//!
//! Output on stderr is always filtered, since diagnostics are read by people. Output on stdout is
//! filtered only if stdout is a terminal: in a file or a pipe it is data.

use std::fmt::Arguments;
use std::io::{ErrorKind, IsTerminal, Write};
use std::sync::OnceLock;

use timeloom_text::{visible, visible_in_colours};

/// Exit status that a shell reports for a program that SIGPIPE ended: 128 + 13.
const BROKEN_PIPE: i32 = 141;
/// Exit code for output that could not be written; the same as for a failed run.
const FAILED: i32 = 1;

/// Prints a line like `println!`, but does not panic if the reader has closed stdout.
///
/// If stdout is a closed pipe (`timeloom schema | head`), ends the process without a message, with
/// the status that a shell reports for a program that SIGPIPE ended. The signal itself stays
/// ignored, because the same process writes to sockets and to plants. Any other error, such as a
/// full disk, is reported on stderr.
#[macro_export]
macro_rules! say {
    () => { $crate::exit::say!("") };
    ($($text:tt)*) => { $crate::exit::say_line(::std::format_args!($($text)*)) };
}

/// Prints a line on stderr like `eprintln!`, but through the filter of terminal control characters,
/// and without a panic if stderr is closed.
#[macro_export]
macro_rules! note {
    () => { $crate::exit::note!("") };
    ($($text:tt)*) => { $crate::exit::note_line(::std::format_args!($($text)*)) };
}

/// Prints a line; implements [`say!`] for formatted arguments.
pub fn say_line(line: Arguments<'_>) {
    let Err(error) = try_say(line) else { return };
    if error.kind() == ErrorKind::BrokenPipe {
        std::process::exit(BROKEN_PIPE);
    }
    note_line(format_args!("timeloom: writing to stdout: {error}"));
    std::process::exit(FAILED);
}

/// Prints a line on stderr; implements [`note!`] for formatted arguments.
pub fn note_line(line: Arguments<'_>) {
    to_stderr(&visible(&line.to_string()));
}

/// Prints a text like [`note_line`], but keeps the colours that Timeloom has added to it.
pub fn note_in_colours(text: &str) {
    to_stderr(&visible_in_colours(text));
}

/// Replaces the current line of the terminal at stderr by a filtered one, without a newline.
pub fn note_over(line: Arguments<'_>) {
    let mut stderr = std::io::stderr().lock();
    // The process continues even if stderr is closed.
    let _ = write!(stderr, "\r\x1b[K{}", visible(&line.to_string()));
    let _ = stderr.flush();
}

fn to_stderr(line: &str) {
    // The process continues even if stderr is closed.
    let _ = writeln!(std::io::stderr().lock(), "{line}");
}

/// Prints a line on stdout. For callers that report an exit code of their own even if this fails.
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
