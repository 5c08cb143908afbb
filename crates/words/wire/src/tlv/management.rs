//! MANAGEMENT and MANAGEMENT_ERROR_STATUS (IEEE 1588-2008, 15.5.2 and 15.5.4).

use super::PtpText;
use super::text::malformed;
use crate::{EmitError, ParseError, Reader, Writer};

/// A management identifier and its data set. The data set stays encoded: its format depends on the
/// identifier, and this project uses only a few identifiers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ManagementTlv<'a> {
    /// `managementId` (table 40).
    pub id: u16,
    /// The data set, encoded.
    pub data: &'a [u8],
}

impl<'a> ManagementTlv<'a> {
    /// Parses the value of a TLV.
    pub fn parse(value: &'a [u8]) -> Result<Self, ParseError> {
        let mut from = Reader::new(value);
        Ok(Self {
            id: from.u16().map_err(malformed)?,
            data: from.rest(),
        })
    }

    /// Writes the value of the TLV.
    pub fn emit(&self, to: &mut Writer<'_>) -> Result<(), EmitError> {
        to.u16(self.id)?;
        to.put(self.data)
    }
}

/// Reason for the failure of a management request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ManagementErrorStatus<'a> {
    /// `managementErrorId` (table 72).
    pub error: u16,
    /// `managementId` of the request.
    pub id: u16,
    /// Text for display; may be empty.
    pub display: PtpText<'a>,
}

impl<'a> ManagementErrorStatus<'a> {
    /// Parses the value of a TLV. The text may be missing, because some senders omit it.
    pub fn parse(value: &'a [u8]) -> Result<Self, ParseError> {
        let mut from = Reader::new(value);
        let error = from.u16().map_err(malformed)?;
        let id = from.u16().map_err(malformed)?;
        from.take(4).map_err(malformed)?;
        let display = if from.rest().is_empty() {
            PtpText::default()
        } else {
            PtpText::parse(&mut from).map_err(malformed)?
        };
        Ok(Self { error, id, display })
    }

    /// Writes the value of the TLV.
    pub fn emit(&self, to: &mut Writer<'_>) -> Result<(), EmitError> {
        to.u16(self.error)?;
        to.u16(self.id)?;
        to.u32(0)?;
        self.display.emit_padded(to)
    }
}
