//! Sync and Follow_Up (IEEE 1588-2008, 13.6 and 13.7).

use crate::{EmitError, ParseError, Reader, Timestamp, Writer};

/// Event message whose departure is the instant that the master distributes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sync {
    /// Departure time, in a one-step Sync. In a two-step Sync an estimate, or 0 (9.5.9.3);
    /// receivers use only the time in the Follow_Up, so this field can hold a nonce.
    pub origin: Timestamp,
}

impl Sync {
    pub(super) fn parse(from: &mut Reader<'_>) -> Result<Self, ParseError> {
        Ok(Self {
            origin: Timestamp::parse(from)?,
        })
    }

    pub(super) fn emit(&self, to: &mut Writer<'_>) -> Result<(), EmitError> {
        self.origin.emit(to)
    }
}

/// The precise departure time of the Sync with the same `sequenceId`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FollowUp {
    /// Departure time of the Sync from the grandmaster, by the grandmaster's clock.
    pub precise_origin: Timestamp,
}

impl FollowUp {
    pub(super) fn parse(from: &mut Reader<'_>) -> Result<Self, ParseError> {
        Ok(Self {
            precise_origin: Timestamp::parse(from)?,
        })
    }

    pub(super) fn emit(&self, to: &mut Writer<'_>) -> Result<(), EmitError> {
        self.precise_origin.emit(to)
    }
}
