//! Command `timeloom attack`: attacks of a running experiment start and stop by hand.

use std::process::ExitCode;

use clap::{Args, Subcommand};
use timeloom_guest::Request;
use timeloom_run::exit::Failure;

use super::control::Target;

/// Start or stop an attack of a running experiment
///
/// The scenario declares the attack. It begins once; the results contain its interval, as for an
/// attack that begins at an instant of the scenario.
#[derive(Subcommand)]
#[command(after_help = "Example: timeloom attack start dos; timeloom attack stop dos")]
pub(crate) enum Attack {
    /// Start the programs of an attack that has no `at` in the scenario
    Start(Chosen),
    /// Kill the programs of an attack, with all processes that they have started
    Stop(Chosen),
}

#[derive(Args)]
pub(crate) struct Chosen {
    /// Name of the attack in the scenario (`id`)
    id: String,
    #[command(flatten)]
    target: Target,
}

impl Attack {
    pub(crate) fn run(self) -> Result<ExitCode, Failure> {
        let (Chosen { id, target }, start) = match self {
            Self::Start(chosen) => (chosen, true),
            Self::Stop(chosen) => (chosen, false),
        };
        target.send(&Request::Attack { id, start })
    }
}
