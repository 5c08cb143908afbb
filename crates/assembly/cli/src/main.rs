//! `timeloom`: the command line.

use std::process::ExitCode;

use clap::Parser;

mod commands;
mod exit;

fn main() -> ExitCode {
    let arguments = commands::Arguments::parse();
    commands::run(arguments).unwrap_or_else(|failure| failure.report())
}
