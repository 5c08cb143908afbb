//! Entries of the signed TLV, one for each transparent clock that signed.

use timeloom_time::convert::low_u8;

use crate::{ClockIdentity, EmitError, ParseError, Reader, TimeInterval, Writer};

/// Encoding of entries: clocks are given by full identity, or by their index in the key file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EntryForm {
    /// 18 octets: identity 8, ports 1 + 1, contribution 8.
    Full,
    /// 8 octets: index 2, contribution 6. The ports are omitted and count as 0. Both links of the
    /// hop are identified nevertheless, because the previous and the next hop are signed.
    Compact,
    /// Like [`EntryForm::Compact`], but 6 of the index's 16 bits hold the egress port, which
    /// selects the signer's key. The greatest index is 1023, the greatest port 63.
    CompactWithPort,
}

impl EntryForm {
    /// Returns the length of an entry, in octets.
    pub const fn length(self) -> usize {
        match self {
            Self::Full => 18,
            Self::Compact | Self::CompactWithPort => 8,
        }
    }
}

/// Clock that signed an entry, in the form that the entry contains.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Signer {
    /// Full clock identity.
    Identity(ClockIdentity),
    /// Index in the key file.
    Index(u16),
}

impl core::fmt::Display for Signer {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        match self {
            Self::Identity(clock) => clock.fmt(f),
            Self::Index(place) => write!(f, "clock {place} of the key file"),
        }
    }
}

/// One hop of the path: the signing clock, its ports, and its contribution.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SignedEntry {
    /// The signer.
    pub signer: Signer,
    /// Port by which the Sync arrived; 0 in compact entries.
    pub ingress_port: u8,
    /// Port by which the Sync departed; 0 in entries of [`EntryForm::Compact`].
    pub egress_port: u8,
    /// Contribution of the hop to `correctionField`: residence time, delay of the ingress link and
    /// asymmetry. A compact entry has 48 bits for it, a range of ± 2.147 s.
    pub contribution: TimeInterval,
}

impl SignedEntry {
    pub(super) fn parse(form: EntryForm, from: &mut Reader<'_>) -> Result<Self, ParseError> {
        Ok(match form {
            EntryForm::Full => Self {
                signer: Signer::Identity(ClockIdentity::parse(from)?),
                ingress_port: from.u8()?,
                egress_port: from.u8()?,
                contribution: TimeInterval(from.i64()?),
            },
            EntryForm::Compact | EntryForm::CompactWithPort => {
                let word = from.u16()?;
                let (index, egress_port) = if form == EntryForm::CompactWithPort {
                    (word & INDEX_BESIDE_PORT, low_u8((word >> 10).into()))
                } else {
                    (word, 0)
                };
                Self {
                    signer: Signer::Index(index),
                    ingress_port: 0,
                    egress_port,
                    // The shifts up and down extend the sign of the 48-bit number.
                    contribution: TimeInterval((from.u48()? << 16).cast_signed() >> 16),
                }
            }
        })
    }

    /// Writes the entry in the form that its signer implies. Fails if the contribution, port or
    /// index does not fit its bits, since a truncated value must not be sent.
    pub fn emit(&self, to: &mut Writer<'_>) -> Result<(), EmitError> {
        match self.signer {
            Signer::Identity(clock) => {
                clock.emit(to)?;
                to.u8(self.ingress_port)?;
                to.u8(self.egress_port)?;
                to.put(&self.contribution.0.to_be_bytes())
            }
            Signer::Index(index) => {
                let value = self.contribution.0;
                if (value << 16) >> 16 != value {
                    return Err(EmitError::TooLong);
                }
                let port = u16::from(self.egress_port);
                if port > 0 && (port > 0x3f || index > INDEX_BESIDE_PORT) {
                    return Err(EmitError::TooLong);
                }
                to.u16(port << 10 | index)?;
                to.u48(value.cast_unsigned() & 0xffff_ffff_ffff)
            }
        }
    }
}

/// Greatest index that can be encoded together with a port.
pub const INDEX_BESIDE_PORT: u16 = 0x3ff;
