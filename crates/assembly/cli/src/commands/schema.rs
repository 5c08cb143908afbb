//! `timeloom schema`: what editors need to help with a scenario.

use std::process::ExitCode;

use clap::Args;
use timeloom_exit::{Failure, say};

/// Print the JSON Schema of scenario files
///
/// An editor with a TOML language server completes and explains keys with it.
/// It knows shapes only; `timeloom check` knows the rules.
#[derive(Args)]
#[command(after_help = "Example: timeloom schema > timeloom.schema.json")]
pub(crate) struct Schema {}

impl Schema {
    pub(crate) fn run(self) -> Result<ExitCode, Failure> {
        say!("{:#}", timeloom_scenario::json_schema());
        Ok(ExitCode::SUCCESS)
    }
}
