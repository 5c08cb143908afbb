//! Signaling (IEEE 1588-2008, 13.12): a message that carries TLVs to another clock.

use crate::{EmitError, ParseError, PortIdentity, Reader, Writer};

/// Target of the TLVs that follow.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Signaling {
    /// Port to which the message is addressed; all ones address every port.
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
