//! Size limits of the results of a run.

use schemars::JsonSchema;
use serde::Serialize;

use crate::read::{Fields, Read};
use crate::words::Size;

/// Size limits of the results, so that programs that print without end, or runs that record without
/// end, do not fill the disk.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub struct Results {
    /// Log of one program or plant; output beyond the limit is counted and discarded.
    #[schemars(default = "default_log")]
    pub log_limit: Size,
    /// Journal of all signals, events and clocks: a run that reaches the limit ends as failed.
    #[schemars(default = "default_journal")]
    pub journal_limit: Size,
    /// Share of the journal that one source may use: a plant, or a requester at a host. Rows beyond
    /// the limit are counted and discarded, and the run is marked as not trustworthy.
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
