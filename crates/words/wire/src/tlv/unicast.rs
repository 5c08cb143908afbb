//! Unicast negotiation (IEEE 1588-2008, 16.1.4).

use super::text::malformed;
use crate::{EmitError, ParseError, Reader, Writer};

/// Request for unicast messages of one type.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct UnicastRequest {
    /// Requested message type, as `messageType` nibble.
    pub message_type: u8,
    /// Requested interval between messages, as log2 of seconds.
    pub log_interval: i8,
    /// Requested duration of the transmission, in seconds.
    pub duration_s: u32,
}

impl UnicastRequest {
    /// Parses the value of a TLV.
    pub fn parse(value: &[u8]) -> Result<Self, ParseError> {
        let mut from = Reader::new(value);
        let mut read = || {
            Ok(Self {
                message_type: from.u8()? >> 4,
                log_interval: from.u8()?.cast_signed(),
                duration_s: from.u32()?,
            })
        };
        read().map_err(malformed)
    }

    /// Writes the value of the TLV.
    pub fn emit(&self, to: &mut Writer<'_>) -> Result<(), EmitError> {
        to.u8(self.message_type << 4)?;
        to.u8(self.log_interval.cast_unsigned())?;
        to.u32(self.duration_s)
    }
}

/// Grant of unicast messages for a limited time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct UnicastGrant {
    /// The request that is granted, with the granted interval and duration; duration 0 is a
    /// refusal.
    pub granted: UnicastRequest,
    /// True if the granter is likely to grant a renewal.
    pub renewal_invited: bool,
}

impl UnicastGrant {
    /// Parses the value of a TLV.
    pub fn parse(value: &[u8]) -> Result<Self, ParseError> {
        let granted = UnicastRequest::parse(value)?;
        let last = value.get(7).ok_or(ParseError::TlvValue)?;
        Ok(Self {
            granted,
            renewal_invited: last & 1 == 1,
        })
    }

    /// Writes the value of the TLV.
    pub fn emit(&self, to: &mut Writer<'_>) -> Result<(), EmitError> {
        self.granted.emit(to)?;
        to.u8(0)?;
        to.u8(u8::from(self.renewal_invited))
    }
}

/// Request to end unicast messages of one type; also used as its acknowledgement.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct UnicastCancel {
    /// Message type to end, as `messageType` nibble.
    pub message_type: u8,
}

impl UnicastCancel {
    /// Parses the value of a TLV.
    pub fn parse(value: &[u8]) -> Result<Self, ParseError> {
        let first = value.first().ok_or(ParseError::TlvValue)?;
        Ok(Self {
            message_type: first >> 4,
        })
    }

    /// Writes the value of the TLV.
    pub fn emit(&self, to: &mut Writer<'_>) -> Result<(), EmitError> {
        to.u8(self.message_type << 4)?;
        to.u8(0)
    }
}
