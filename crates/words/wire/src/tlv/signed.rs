//! The signed TLV, in which every transparent clock on the path (hop) signs its own correction.
//!
//! The TLV is appended to Follow_Up, Pdelay_Resp_Follow_Up and Announce, never to Sync, Pdelay_Req
//! or Pdelay_Resp: ptp4l 3.1.1 drops the latter three if they contain any TLV. Its type is
//! ORGANIZATION_EXTENSION_DO_NOT_PROPAGATE, so that clocks that do not know it ignore it and
//! transparent clocks forward it. The organisation's identifier is configurable and experimental:
//! the project owns no OUI.
//!
//! ```text
//! off len
//!  0  2  tlvType 0x8000          2  2  lengthField
//!  4  3  organizationId          7  3  organizationSubType (1 Follow_Up, 2 Pdelay, 3 Announce)
//! 10  1  version << 4 | suite   11  1  flags
//! 12  1  keyEpoch               13  1  hopCount n
//! 14  4  high 32 bits of the 48-bit sequence, whose low 16 are sequenceId
//! 18     BLS (both suites): n entries, then one aggregate signature (48)
//!        Ed25519: the grandmaster's signature (64), then n × (entry, signature 64)
//! ```
//!
//! The texts that are signed are not transmitted; `timeloom-ptp` builds them from the message.

use super::text::malformed;
use super::{EntryForm, SignedEntry, Tlv, TlvType};
use crate::{EmitError, ParseError, Reader, Writer};

/// Type of the message that the TLV signs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum SubType {
    /// A Follow_Up, signed by the grandmaster and by each hop.
    FollowUp = 1,
    /// A Pdelay_Resp_Follow_Up.
    Pdelay = 2,
    /// An Announce.
    Announce = 3,
}

/// Signature scheme of the TLV.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Suite {
    /// BLS12-381 with signatures in G1: the signatures of all hops form one aggregate of 48 octets.
    Bls = 1,
    /// Ed25519: each signer has its own signature of 64 octets.
    Ed25519 = 2,
    /// Like [`Suite::Bls`], but a Follow_Up is signed with a key that is used for one Sync only, so
    /// that most of the signature can be computed in advance. Each egress port of a clock has its
    /// own key, so the entries contain the port.
    BlsOnce = 5,
}

impl Suite {
    /// All suites.
    pub const ALL: [Self; 3] = [Self::Bls, Self::Ed25519, Self::BlsOnce];

    /// Returns the length of one signature in octets; for BLS, of the aggregate.
    pub const fn signature_length(self) -> usize {
        if self.is_aggregate() { 48 } else { 64 }
    }

    /// Returns true if the signatures of all hops form one aggregate.
    pub const fn is_aggregate(self) -> bool {
        matches!(self, Self::Bls | Self::BlsOnce)
    }

    /// Decodes the suite from the octet that contains version and suite; `None` if either is
    /// unknown.
    pub const fn of_version_octet(octet: u8) -> Option<Self> {
        match octet {
            0x11 => Some(Self::Bls),
            0x12 => Some(Self::Ed25519),
            0x15 => Some(Self::BlsOnce),
            _ => None,
        }
    }
}

/// The flags octet of the TLV.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SignedFlags(pub u8);

impl SignedFlags {
    /// The entries are compact ([`EntryForm::Compact`] or [`EntryForm::CompactWithPort`]).
    pub const COMPACT: u8 = 1;
    /// The Sync's `originTimestamp` contains a nonce, which is signed.
    pub const NONCE: u8 = 2;
    /// The VLAN identifier of the message is signed.
    pub const VID: u8 = 4;
    /// A hop converted the Sync from one-step to two-step.
    pub const CONVERTED: u8 = 8;
    /// The first signer of this TLV found the chain of signatures broken and started a new one, so
    /// the grandmaster's signature is missing.
    pub const RESTARTED: u8 = 16;
    /// A hop could not sign, for lack of space or of a key: its correction is not covered.
    pub const INCOMPLETE: u8 = 32;
    /// With [`Suite::BlsOnce`]: the grandmaster had no prepared key left for this Sync, and signed
    /// with its ordinary key. (Bit 64 is the consent to unsigned clocks.)
    pub const ORDINARY: u8 = 128;

    /// Returns true if `bit` is set.
    pub const fn has(self, bit: u8) -> bool {
        self.0 & bit != 0
    }
}

/// The fields of the TLV before its entries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SignedHead {
    /// `organizationId`: identifier of the organisation.
    pub organization: [u8; 3],
    /// Type of the signed message.
    pub sub_type: SubType,
    /// Signature scheme.
    pub suite: Suite,
    /// Flags about the chain and its entries.
    pub flags: SignedFlags,
    /// `keyEpoch`: generation of the keys.
    pub key_epoch: u8,
    /// High 32 bits of the 48-bit sequence number; the low 16 bits are `sequenceId`.
    pub sequence_high: u32,
}

impl SignedHead {
    /// Version of the TLV's layout.
    pub const VERSION: u8 = 1;
    /// Octets of the TLV before the entries, including type and length fields.
    pub const LENGTH: usize = 18;

    /// Returns the form of the TLV's entries.
    pub const fn form(&self) -> EntryForm {
        match (self.flags.has(SignedFlags::COMPACT), self.suite) {
            (false, _) => EntryForm::Full,
            (true, Suite::BlsOnce) => EntryForm::CompactWithPort,
            (true, _) => EntryForm::Compact,
        }
    }
}

/// A view on a received signed TLV whose lengths have been checked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SignedTlv<'a> {
    /// The fields before the entries.
    pub head: SignedHead,
    /// Number of transparent clocks that signed (`hopCount`).
    pub hops: u8,
    body: &'a [u8],
}

impl<'a> SignedTlv<'a> {
    /// Maximum number of hops, more than any profile permits. Buffers of signed texts have this
    /// size.
    pub const MAX_HOPS: u8 = 32;

    /// Parses `tlv`; `None` if it is not a signed TLV of `organization`.
    pub fn parse(tlv: Tlv<'a>, organization: [u8; 3]) -> Option<Result<Self, ParseError>> {
        if !tlv.kind.is_organization() || !tlv.value.starts_with(&organization) {
            return None;
        }
        Some(Self::read(tlv.value).map_err(malformed))
    }

    fn read(value: &'a [u8]) -> Result<Self, ParseError> {
        let mut from = Reader::new(value);
        let organization = from.array()?;
        let sub_type = match from.array()? {
            [0, 0, 1] => SubType::FollowUp,
            [0, 0, 2] => SubType::Pdelay,
            [0, 0, 3] => SubType::Announce,
            _ => return Err(ParseError::TlvValue),
        };
        let suite = Suite::of_version_octet(from.u8()?).ok_or(ParseError::TlvValue)?;
        let flags = SignedFlags(from.u8()?);
        let key_epoch = from.u8()?;
        let hops = from.u8()?;
        let sequence_high = from.u32()?;
        let head = SignedHead {
            organization,
            sub_type,
            suite,
            flags,
            key_epoch,
            sequence_high,
        };
        let tlv = Self {
            head,
            hops,
            body: from.rest(),
        };
        // Only the TLV of a Follow_Up has entries. The length must be exact, so that the TLV
        // contains no unsigned bytes.
        if hops > Self::MAX_HOPS
            || (hops > 0 && sub_type != SubType::FollowUp)
            || tlv.body.len() != Self::body_length(suite, head.form(), hops)
        {
            return Err(ParseError::TlvValue);
        }
        Ok(tlv)
    }

    const fn body_length(suite: Suite, form: EntryForm, hops: u8) -> usize {
        let own = if suite.is_aggregate() { 0 } else { 64 };
        let per_hop = form.length() + own;
        suite.signature_length() + hops as usize * per_hop
    }

    /// Returns the length of a whole TLV in octets, including its type and length fields.
    pub const fn length(suite: Suite, form: EntryForm, hops: u8) -> usize {
        SignedHead::LENGTH + Self::body_length(suite, form, hops)
    }

    /// Returns the aggregate signature (BLS), or the grandmaster's signature (Ed25519).
    pub fn signature(&self) -> &'a [u8] {
        if self.head.suite.is_aggregate() {
            &self.body[self.body.len() - 48..]
        } else {
            &self.body[..64]
        }
    }

    /// Iterates over the hops in the order of signing, each with its signature; for BLS that
    /// signature is empty.
    pub fn entries(&self) -> impl Iterator<Item = (SignedEntry, &'a [u8])> + use<'a> {
        let form = self.head.form();
        let (skip, signature) = if self.head.suite.is_aggregate() {
            (0, 0)
        } else {
            (64, 64)
        };
        let mut from = Reader::new(&self.body[skip..]);
        (0..self.hops).map_while(move |_| {
            let entry = SignedEntry::parse(form, &mut from).ok()?;
            Some((entry, from.take(signature).ok()?))
        })
    }

    /// Writes the value of a TLV: the head, followed by the output of `fill`. `hops` must be the
    /// number of entries that `fill` writes.
    pub fn emit(
        head: &SignedHead,
        hops: u8,
        to: &mut Writer<'_>,
        fill: impl FnOnce(&mut Writer<'_>) -> Result<(), EmitError>,
    ) -> Result<(), EmitError> {
        to.put(&head.organization)?;
        to.put(&[0, 0, head.sub_type as u8])?;
        to.u8(SignedHead::VERSION << 4 | head.suite as u8)?;
        to.u8(head.flags.0)?;
        to.u8(head.key_epoch)?;
        to.u8(hops)?;
        to.u32(head.sequence_high)?;
        fill(to)
    }

    /// Type of the TLV.
    pub const KIND: TlvType = TlvType::ORGANIZATION_EXTENSION_DO_NOT_PROPAGATE;
}
