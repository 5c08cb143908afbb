//! AUTHENTICATION of IEEE 1588-2019 (16.14.3), as implemented by linuxptp 4.3 and later.

use super::text::malformed;
use crate::{EmitError, ParseError, Reader, Writer};

/// A message authentication code over the preceding bytes of the message. This crate only
/// transports the code; it neither computes nor checks it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Authentication<'a> {
    /// `SPP`: identifier of the security policy.
    pub policy: u8,
    /// `secParamIndicator`: the optional fields that are present. linuxptp supports only 0 (none).
    pub parameters: u8,
    /// `keyID`: identifier of the key.
    pub key_id: u32,
    /// The indicated optional fields, followed by the `ICV` (integrity check value).
    pub rest: &'a [u8],
}

impl<'a> Authentication<'a> {
    /// Parses the value of a TLV.
    pub fn parse(value: &'a [u8]) -> Result<Self, ParseError> {
        let mut from = Reader::new(value);
        let (policy, parameters) = (from.u8().map_err(malformed)?, from.u8().map_err(malformed)?);
        let key_id = from.u32().map_err(malformed)?;
        Ok(Self {
            policy,
            parameters,
            key_id,
            rest: from.rest(),
        })
    }

    /// Returns the integrity check value; `None` if optional fields, which are not supported here,
    /// precede it.
    pub const fn icv(&self) -> Option<&'a [u8]> {
        if self.parameters == 0 {
            Some(self.rest)
        } else {
            None
        }
    }

    /// Writes the value of the TLV.
    pub fn emit(&self, to: &mut Writer<'_>) -> Result<(), EmitError> {
        to.u8(self.policy)?;
        to.u8(self.parameters)?;
        to.u32(self.key_id)?;
        to.put(self.rest)
    }
}
