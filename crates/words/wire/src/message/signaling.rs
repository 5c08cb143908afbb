//! Signaling (IEEE 1588-2008, 13.12): the address of TLVs.

use crate::{EmitError, ParseError, PortIdentity, Reader, Writer};

/// Address of the TLVs that follow.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Signaling {
    /// Addressed port; all ones for every port.
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
