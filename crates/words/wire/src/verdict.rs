//! What became of a Sync, as slaves say it to others.

use core::fmt;
use core::str::FromStr;

/// A slave's judgement on one Sync.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum SyncVerdict {
    /// Measured, and every hop's signature holds.
    Accepted,
    /// Measured, and nobody vouches for it.
    Unsigned,
    /// Not used, because something is wrong with it.
    Rejected,
    /// Not measured: its Follow_Up, its delay or its master was missing.
    Incomplete,
}

impl SyncVerdict {
    /// All of them.
    pub const ALL: [Self; 4] = [
        Self::Accepted,
        Self::Unsigned,
        Self::Rejected,
        Self::Incomplete,
    ];

    /// As logs and feeds have it.
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

/// A word that is no verdict.
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
