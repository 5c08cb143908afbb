//! Size limits of the results of a run.

use schemars::JsonSchema;
use serde::Serialize;

use crate::read::{Fields, Read};
use crate::words::Size;

/// Size limits of the results, which prevent that programs with endless output, or runs with
/// endless records, fill the disk.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub struct Results {
    /// Maximum size of the log of one program or plant. Output beyond it is counted and discarded.
    #[schemars(default = "default_log")]
    pub log_limit: Size,
    /// Maximum size of all signals, events and clock changes. A run that reaches it fails.
    #[schemars(default = "default_journal")]
    pub journal_limit: Size,
    /// Maximum size of the records of one source: a plant, or a requester at a host. Rows beyond it
    /// are counted and discarded, and the results count as not trustworthy.
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
