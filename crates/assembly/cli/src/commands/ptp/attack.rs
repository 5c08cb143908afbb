//! Command `timeloom ptp attack`: manipulates the wire of a laboratory for a limited time.

use std::process::ExitCode;

use clap::Args;
use timeloom_ptp_io::lab::{self, LabAttack};
use timeloom_run::exit::{Failure, say};
use timeloom_time::Duration;

use super::lab::LabFiles;

/// Attack a running laboratory, on its tapped wire
///
/// Only a laboratory can be attacked (`timeloom ptp lab --tap HOP`), through a socket in its
/// directory. Prints the evidence of the laboratory's clocks during the attack.
#[derive(Args)]
#[command(
    after_help = "Example: timeloom ptp lab --hops 4 --auth inline-ed25519 --tap 2 --for '60 s' &\n         timeloom ptp attack correction --for '5 s'"
)]
pub(crate) struct AttackCommand {
    /// correction, origin, strip, remove-hop, epoch, replay, duplicate-sync, spoof-sync,
    /// second-master, pdelay, flood, malformed, delay-sync, symmetric-delay
    #[arg(value_parser = LabAttack::named)]
    attack: LabAttack,
    /// Duration of the attack
    #[arg(long = "for", default_value = "5 s", value_name = "SPAN")]
    duration: Duration,
    #[command(flatten)]
    files: LabFiles,
}

impl AttackCommand {
    pub(crate) fn run(self) -> Result<ExitCode, Failure> {
        let done = lab::attack(&self.files.output, self.attack, self.duration)?;
        if self.files.json {
            say!("{}", serde_json::json!(done));
            return Ok(ExitCode::SUCCESS);
        }
        say!("{}: {} messages", self.attack.name(), done.attacked);
        for (violation, count) in &done.violations {
            say!("  {count:>5} × {violation}");
        }
        if done.violations.is_empty() {
            let why = if self.attack.is_detectable() {
                "without signatures, no attack is detectable"
            } else {
                "this attack is not detectable: see docs/ptp-attacks.md"
            };
            say!("  no violation was reported ({why})");
        }
        Ok(ExitCode::SUCCESS)
    }
}
