//! `PTPText` (IEEE 1588-2008, 5.3.9).

use crate::{EmitError, ParseError, Reader, Writer};

/// A length octet and that many octets of UTF-8. The octets are not validated, because the text is
/// displayed and never compared.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PtpText<'a>(
    /// The octets of the text, at most 255.
    pub &'a [u8],
);

impl<'a> PtpText<'a> {
    pub(super) fn parse(from: &mut Reader<'a>) -> Result<Self, ParseError> {
        let length = usize::from(from.u8()?);
        Ok(Self(from.take(length)?))
    }

    /// Writes the length octet and the text. Appends a zero octet if their total length is odd, so
    /// that a TLV that ends with the text has an even length.
    pub(super) fn emit_padded(self, to: &mut Writer<'_>) -> Result<(), EmitError> {
        to.u8(u8::try_from(self.0.len()).map_err(|_| EmitError::TooLong)?)?;
        to.put(self.0)?;
        if self.0.len().is_multiple_of(2) {
            to.u8(0)
        } else {
            Ok(())
        }
    }
}

/// Converts [`ParseError::Truncated`] to the error for a malformed TLV value: the value is too
/// short for its fields.
pub(super) fn malformed(error: ParseError) -> ParseError {
    match error {
        ParseError::Truncated => ParseError::TlvValue,
        other => other,
    }
}
