//! ORGANIZATION_EXTENSION (IEEE 1588-2008, 14.3).

use super::text::malformed;
use crate::{EmitError, ParseError, Reader, Writer};

/// TLV that an organisation defines.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OrganizationExtension<'a> {
    /// `organizationId`: the OUI of the organisation.
    pub organization: [u8; 3],
    /// `organizationSubType`: distinguishes the organisation's TLVs.
    pub sub_type: [u8; 3],
    /// `dataField`, in a format that the organisation defines.
    pub data: &'a [u8],
}

impl<'a> OrganizationExtension<'a> {
    /// Parses the value of a TLV.
    pub fn parse(value: &'a [u8]) -> Result<Self, ParseError> {
        let mut from = Reader::new(value);
        let organization = from.array().map_err(malformed)?;
        let sub_type = from.array().map_err(malformed)?;
        Ok(Self {
            organization,
            sub_type,
            data: from.rest(),
        })
    }

    /// Writes the value of the TLV.
    pub fn emit(&self, to: &mut Writer<'_>) -> Result<(), EmitError> {
        to.put(&self.organization)?;
        to.put(&self.sub_type)?;
        to.put(self.data)
    }
}
