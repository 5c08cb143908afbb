//! Lines on stdout, whose reader may leave.

use std::fmt::Arguments;
use std::io::{ErrorKind, Write};

/// What a shell says of a program that SIGPIPE ended: 128 + 13.
const BROKEN_PIPE: i32 = 141;
/// The run's fault; what was to be printed is lost.
const FAILED: i32 = 1;

/// Prints a line as `println!` does, where that would panic once nobody reads any more.
///
/// A closed pipe (`timeloom schema | head`) ends the process without a word, with the
/// status that a shell gives a program that SIGPIPE ended. The signal itself stays
/// ignored: the same process writes to sockets and to plants. Any other failure, such as
/// a full disk, is said on stderr.
#[macro_export]
macro_rules! say {
    () => { $crate::say!("") };
    ($($text:tt)*) => { $crate::say_line(::std::format_args!($($text)*)) };
}

/// [`say!`], for what is formatted already.
pub fn say_line(line: Arguments<'_>) {
    let Err(error) = try_say(line) else { return };
    if error.kind() == ErrorKind::BrokenPipe {
        std::process::exit(BROKEN_PIPE);
    }
    eprintln!("timeloom: writing to stdout: {error}");
    std::process::exit(FAILED);
}

/// The line, or why it could not be written: for who has a verdict of its own to end with.
///
/// # Errors
/// Stdout's.
pub fn try_say(line: Arguments<'_>) -> std::io::Result<()> {
    let mut stdout = std::io::stdout().lock();
    stdout.write_fmt(line)?;
    stdout.write_all(b"\n")?;
    stdout.flush()
}
