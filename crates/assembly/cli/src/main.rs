//! Program `timeloom`: the command line.

#![forbid(unsafe_code)]

use std::process::ExitCode;

/// Prints a line on stderr through the filter of `timeloom-exit`, which every such line must pass.
macro_rules! eprintln {
    () => { ::timeloom_exit::note_line(::std::format_args!("")) };
    ($($text:tt)*) => { ::timeloom_exit::note_line(::std::format_args!($($text)*)) };
}

mod commands;

fn main() -> ExitCode {
    commands::run(commands::Arguments::of_process()).unwrap_or_else(|failure| failure.report())
}
