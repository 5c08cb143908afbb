//! PATH_TRACE (IEEE 1588-2008, 16.2).

use crate::{ClockIdentity, EmitError, ParseError, Writer};

/// Boundary clocks that an Announce has passed, the grandmaster first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PathTrace<'a>(&'a [u8]);

impl<'a> PathTrace<'a> {
    /// Reads a value, which must consist of whole identities.
    pub fn parse(value: &'a [u8]) -> Result<Self, ParseError> {
        if !value.len().is_multiple_of(8) {
            return Err(ParseError::TlvValue);
        }
        Ok(Self(value))
    }

    /// The clocks in order.
    pub fn iter(&self) -> impl Iterator<Item = ClockIdentity> + use<'a> {
        self.0.as_chunks::<8>().0.iter().copied().map(ClockIdentity)
    }

    /// Writes the value.
    pub fn emit(&self, to: &mut Writer<'_>) -> Result<(), EmitError> {
        to.put(self.0)
    }
}
