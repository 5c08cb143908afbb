//! Command `timeloom ptp`: precise time, with corrections that every hop signs.

mod attack;
mod clock;
mod keys;
mod lab;
mod policy;

use std::process::ExitCode;

use clap::{Args, Subcommand};
use timeloom_run::exit::Failure;

/// Precision time (IEEE 1588): clocks on real interfaces, and a laboratory
///
/// With keys, every transparent clock signs its contribution to a Sync, and the slave can identify
/// a faulty hop. See docs/ptp.md.
#[derive(Args)]
pub(crate) struct Ptp {
    #[command(subcommand)]
    command: Command,
}

// Variants have no comments, because these would replace the commands' own texts.
#[derive(Subcommand)]
enum Command {
    Gm(clock::Grandmaster),
    Slave(clock::Slave),
    Tc(clock::Transparent),
    Monitor(clock::Monitor),
    Keygen(keys::Keygen),
    Sign(keys::Sign),
    Rotate(keys::Rotate),
    Show(keys::Show),
    Lab(Box<lab::Lab>),
    Attack(attack::AttackCommand),
}

impl Ptp {
    pub(crate) fn run(self) -> Result<ExitCode, Failure> {
        match self.command {
            Command::Gm(command) => command.run(),
            Command::Slave(command) => command.run(),
            Command::Tc(command) => command.run(),
            Command::Monitor(command) => command.run(),
            Command::Keygen(command) => command.run(),
            Command::Sign(command) => command.run(),
            Command::Rotate(command) => command.run(),
            Command::Show(command) => command.run(),
            Command::Lab(command) => command.run(),
            Command::Attack(command) => command.run(),
        }
    }
}
