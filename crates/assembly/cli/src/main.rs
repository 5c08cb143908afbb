//! Program `timeloom`: the command line.

#![forbid(unsafe_code)]

use std::process::ExitCode;

mod commands;

fn main() -> ExitCode {
    commands::run(commands::Arguments::of_process()).unwrap_or_else(|failure| failure.report())
}
