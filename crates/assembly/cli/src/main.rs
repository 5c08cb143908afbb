//! `timeloom`: the command line.

#![forbid(unsafe_code)]

use std::process::ExitCode;

/// Prints through the filter of `timeloom-exit`, as every line on stderr must.
macro_rules! eprintln {
    () => { ::timeloom_exit::note_line(::std::format_args!("")) };
    ($($text:tt)*) => { ::timeloom_exit::note_line(::std::format_args!($($text)*)) };
}

mod commands;

fn main() -> ExitCode {
    commands::run(commands::Arguments::of_process()).unwrap_or_else(|failure| failure.report())
}
