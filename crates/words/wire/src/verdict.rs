//! Verdicts of slaves on Syncs.

use core::fmt;
use core::str::FromStr;

/// Verdict of a slave on one Sync.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum SyncVerdict {
    /// The offset was measured, and the signature of every hop is valid.
    Accepted,
    /// The offset was measured, but the Sync was not signed.
    Unsigned,
    /// The slave does not use the Sync, because it has a fault.
    Rejected,
    /// The offset was not measured, because the Follow_Up, the delay or the master was missing.
    Incomplete,
}

impl SyncVerdict {
    /// All verdicts, in the order of the variants.
    pub const ALL: [Self; 4] = [
        Self::Accepted,
        Self::Unsigned,
        Self::Rejected,
        Self::Incomplete,
    ];

    /// Returns the word for this verdict in logs and feeds.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Accepted => "accepted",
            Self::Unsigned => "unsigned",
            Self::Rejected => "rejected",
            Self::Incomplete => "incomplete",
        }
    }
}

impl fmt::Display for SyncVerdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.word())
    }
}

/// Error for a word that is not a verdict.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NoVerdict;

impl FromStr for SyncVerdict {
    type Err = NoVerdict;

    fn from_str(text: &str) -> Result<Self, NoVerdict> {
        Self::ALL
            .into_iter()
            .find(|verdict| verdict.word() == text)
            .ok_or(NoVerdict)
    }
}
