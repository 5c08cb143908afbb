//! ALTERNATE_TIME_OFFSET_INDICATOR (IEEE 1588-2008, 16.3). The power profile of 2011 requires one
//! in every Announce.

use super::PtpText;
use super::text::malformed;
use crate::{EmitError, ParseError, Reader, Writer};

/// Offset of a local time zone from PTP time, and its next change.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AlternateTimeOffset<'a> {
    /// `keyField`: distinguishes several local times.
    pub key: u8,
    /// Local time minus PTP time, in seconds.
    pub current_offset_s: i32,
    /// Change of the offset at the next jump, in seconds.
    pub jump_s: i32,
    /// Instant of the next jump, in seconds of the sending clock's time (48 bits).
    pub next_jump_s: u64,
    /// Name of the local time, such as `CET`; at most 10 octets.
    pub display: PtpText<'a>,
}

impl<'a> AlternateTimeOffset<'a> {
    /// Parses the value of a TLV.
    pub fn parse(value: &'a [u8]) -> Result<Self, ParseError> {
        let mut from = Reader::new(value);
        let mut read = || {
            Ok(Self {
                key: from.u8()?,
                current_offset_s: from.i32()?,
                jump_s: from.i32()?,
                next_jump_s: from.u48()?,
                display: PtpText::parse(&mut from)?,
            })
        };
        read().map_err(malformed)
    }

    /// Writes the value of the TLV, padded to an even length.
    pub fn emit(&self, to: &mut Writer<'_>) -> Result<(), EmitError> {
        to.u8(self.key)?;
        to.u32(self.current_offset_s.cast_unsigned())?;
        to.u32(self.jump_s.cast_unsigned())?;
        to.u48(self.next_jump_s)?;
        // Fifteen octets precede the text, so a zero octet must follow a text of odd length.
        // `emit_padded` does not fit, because it assumes that an even number of octets precedes the
        // text.
        to.u8(u8::try_from(self.display.0.len()).map_err(|_| EmitError::TooLong)?)?;
        to.put(self.display.0)?;
        if self.display.0.len().is_multiple_of(2) {
            Ok(())
        } else {
            to.u8(0)
        }
    }
}
