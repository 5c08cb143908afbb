//! The sequence of TLVs in a message.

use super::TlvType;
use crate::{EmitError, ParseError, Reader, Writer};

/// A TLV: its type and a view on its value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tlv<'a> {
    /// Type of the TLV.
    pub kind: TlvType,
    /// Value of the TLV; its length is even.
    pub value: &'a [u8],
}

/// A validated sequence of TLVs: every length is even, and the last TLV ends at the end of the
/// message. TLVs of length zero at the end are accepted (statime rejects them).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tlvs<'a>(&'a [u8]);

impl<'a> Tlvs<'a> {
    /// The empty sequence.
    pub const EMPTY: Self = Self(&[]);

    /// Checks that `bytes` is a sequence of whole TLVs of even length.
    pub fn parse(bytes: &'a [u8]) -> Result<Self, ParseError> {
        let mut from = Reader::new(bytes);
        while !from.rest().is_empty() {
            next(&mut from)?;
        }
        Ok(Self(bytes))
    }

    /// Returns the encoded sequence.
    pub const fn as_bytes(&self) -> &'a [u8] {
        self.0
    }

    /// Iterates over the TLVs, in the order of the message.
    pub fn iter(&self) -> impl Iterator<Item = Tlv<'a>> + use<'a> {
        let mut from = Reader::new(self.0);
        core::iter::from_fn(move || next(&mut from).ok())
    }
}

fn next<'a>(from: &mut Reader<'a>) -> Result<Tlv<'a>, ParseError> {
    let overrun = |_| ParseError::TlvOverrun;
    let kind = TlvType(from.u16().map_err(overrun)?);
    let length = usize::from(from.u16().map_err(overrun)?);
    if !length.is_multiple_of(2) {
        return Err(ParseError::OddTlv);
    }
    Ok(Tlv {
        kind,
        value: from.take(length).map_err(overrun)?,
    })
}

/// Builds a sequence of TLVs in a buffer of the caller.
#[derive(Debug)]
pub struct TlvWriter<'a>(&'a mut [u8], usize);

impl<'a> TlvWriter<'a> {
    /// Returns a writer at the front of `buffer`.
    pub const fn new(buffer: &'a mut [u8]) -> Self {
        Self(buffer, 0)
    }

    /// Appends a TLV whose value `fill` writes. After an error, the sequence is unchanged.
    pub fn push(
        &mut self,
        kind: TlvType,
        fill: impl FnOnce(&mut Writer<'_>) -> Result<(), EmitError>,
    ) -> Result<&mut Self, EmitError> {
        let free = self.0.get_mut(self.1..).ok_or(EmitError::NoRoom)?;
        let mut to = Writer::new(free);
        to.u16(kind.0)?;
        to.u16(0)?;
        fill(&mut to)?;
        let length = to.written() - 4;
        if !length.is_multiple_of(2) {
            return Err(EmitError::OddTlv);
        }
        to.patch_u16(2, u16::try_from(length).map_err(|_| EmitError::TooLong)?);
        self.1 += length + 4;
        Ok(self)
    }

    /// Appends a TLV that is already encoded.
    pub fn push_raw(&mut self, tlv: Tlv<'_>) -> Result<&mut Self, EmitError> {
        self.push(tlv.kind, |to| to.put(tlv.value))
    }

    /// Returns the sequence that was built.
    pub fn finish(self) -> Tlvs<'a> {
        Tlvs(&self.0[..self.1])
    }
}
