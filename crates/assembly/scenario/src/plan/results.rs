//! How large the results of a run may become.

use schemars::JsonSchema;
use serde::Serialize;

use crate::read::{Fields, Read};
use crate::words::Size;

/// How large the results may become. A program that prints without end, or a run that
/// records without end, must not fill the disk.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub struct Results {
    /// The log of one program or plant: what is printed beyond it is counted and left out.
    #[schemars(default = "default_log")]
    pub log_limit: Size,
    /// All that is recorded of signals, events and the clock: a run that gets there ends,
    /// as failed.
    #[schemars(default = "default_journal")]
    pub journal_limit: Size,
    /// What one source has of that: a plant, or who asks at a host. Its rows beyond are
    /// counted and left out, and the run is not to be trusted.
    #[schemars(default = "default_source")]
    pub source_limit: Size,
}

fn default_log() -> Size {
    Size::from_mib(1024)
}

fn default_journal() -> Size {
    Size::from_mib(64 * 1024)
}

fn default_source() -> Size {
    Size::from_mib(16 * 1024)
}

impl Default for Results {
    fn default() -> Self {
        Self {
            log_limit: default_log(),
            journal_limit: default_journal(),
            source_limit: default_source(),
        }
    }
}

impl Read for Results {
    const NOUN: &'static str = "a table of results";

    fn read_table(fields: &mut Fields<'_>) -> Self {
        let default = Self::default();
        Self {
            log_limit: fields.or("log_limit", default.log_limit),
            journal_limit: fields.or("journal_limit", default.journal_limit),
            source_limit: fields.or("source_limit", default.source_limit),
        }
    }
}
