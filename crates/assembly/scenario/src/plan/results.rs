//! Size limits of the results of a run.

use crate::table::table;
use crate::words::Size;

table! {
/// Size limits of the results, which prevent that programs with endless output, or runs with
/// endless records, fill the disk.
#[noun = "a table of results"]
#[derive(Eq)]
pub struct Results {
    /// Maximum size of the log of one program or plant. Output beyond it is counted and discarded.
    pub log_limit: Size = Size::from_mib(1024),
    /// Maximum size of all signals, events and clock changes. A run that reaches it fails.
    pub journal_limit: Size = Size::from_mib(64 * 1024),
    /// Maximum size of the records of one source: a plant, or a requester at a host. Rows beyond it
    /// are counted and discarded, and the results count as not trustworthy.
    pub source_limit: Size = Size::from_mib(16 * 1024),
}
}
