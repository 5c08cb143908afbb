//! Signaling (IEEE 1588-2008, 13.12): an address for TLVs.

use crate::{EmitError, ParseError, PortIdentity, Reader, Writer};

/// To whom the TLVs behind it are said.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Signaling {
    /// All ones for everybody.
    pub target: PortIdentity,
}

impl Signaling {
    pub(super) fn parse(from: &mut Reader<'_>) -> Result<Self, ParseError> {
        Ok(Self {
            target: PortIdentity::parse(from)?,
        })
    }

    pub(super) fn emit(&self, to: &mut Writer<'_>) -> Result<(), EmitError> {
        self.target.emit(to)
    }
}
