//! PATH_TRACE (IEEE 1588-2008, 16.2).

use crate::{ClockIdentity, EmitError, ParseError, Writer};

/// Identities of the clocks that an Announce has passed: the grandmaster, then boundary clocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PathTrace<'a>(&'a [u8]);

impl<'a> PathTrace<'a> {
    /// Parses the value of a TLV, which must be a whole number of clock identities.
    pub fn parse(value: &'a [u8]) -> Result<Self, ParseError> {
        if !value.len().is_multiple_of(8) {
            return Err(ParseError::TlvValue);
        }
        Ok(Self(value))
    }

    /// Iterates over the identities, from the grandmaster on.
    pub fn iter(&self) -> impl Iterator<Item = ClockIdentity> + use<'a> {
        self.0.as_chunks::<8>().0.iter().copied().map(ClockIdentity)
    }

    /// Writes the value of the TLV.
    pub fn emit(&self, to: &mut Writer<'_>) -> Result<(), EmitError> {
        to.put(self.0)
    }
}
