//! ORGANIZATION_EXTENSION (IEEE 1588-2008, 14.3).

use super::text::malformed;
use crate::{EmitError, ParseError, Reader, Writer};

/// TLV of an organisation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OrganizationExtension<'a> {
    /// `organizationId`: an OUI.
    pub organization: [u8; 3],
    /// `organizationSubType`.
    pub sub_type: [u8; 3],
    /// `dataField`.
    pub data: &'a [u8],
}

impl<'a> OrganizationExtension<'a> {
    /// Reads a value.
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

    /// Writes the value.
    pub fn emit(&self, to: &mut Writer<'_>) -> Result<(), EmitError> {
        to.put(&self.organization)?;
        to.put(&self.sub_type)?;
        to.put(self.data)
    }
}
