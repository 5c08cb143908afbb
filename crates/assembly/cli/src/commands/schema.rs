//! Command `timeloom schema`: supports the editing of scenarios.

use std::process::ExitCode;

use clap::Args;
use timeloom_run::exit::{Failure, say};

/// Print the JSON Schema of scenario files
///
/// An editor with a TOML language server uses it to complete and explain keys. The schema describes
/// only the form of a file; `timeloom check` also checks the rules.
#[derive(Args)]
#[command(after_help = "Example: timeloom schema > timeloom.schema.json")]
pub(crate) struct Schema {}

impl Schema {
    pub(crate) fn run(self) -> Result<ExitCode, Failure> {
        say!("{:#}", timeloom_scenario::json_schema());
        Ok(ExitCode::SUCCESS)
    }
}
