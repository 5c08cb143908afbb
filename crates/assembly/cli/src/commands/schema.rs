//! `timeloom schema`: support for scenarios in editors.

use std::process::ExitCode;

use clap::Args;
use timeloom_exit::{Failure, say};

/// Print the JSON Schema of scenario files
///
/// An editor with a TOML language server uses it to complete and explain keys. The schema contains
/// shapes only; `timeloom check` checks the rules.
#[derive(Args)]
#[command(after_help = "Example: timeloom schema > timeloom.schema.json")]
pub(crate) struct Schema {}

impl Schema {
    pub(crate) fn run(self) -> Result<ExitCode, Failure> {
        say!("{:#}", timeloom_scenario::json_schema());
        Ok(ExitCode::SUCCESS)
    }
}
