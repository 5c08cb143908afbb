//! Texts that are signed. Signer and verifier both construct them; they are never transmitted.
//!
//! All fields have fixed lengths and are big-endian. The first word differs for each purpose, so a
//! text of one kind cannot be taken for one of another.

use sha2::{Digest, Sha256};
use timeloom_time::convert::low_u8;
use timeloom_wire::message::FollowUp;
use timeloom_wire::tlv::{SignedEntry, SignedFlags, SignedHead};
use timeloom_wire::{ClockIdentity, Header, PortIdentity, TimeInterval, Timestamp};

pub(super) type Hash = [u8; 32];

pub(super) fn hash(parts: &[&[u8]]) -> Hash {
    let mut sum = Sha256::new();
    parts.iter().for_each(|part| sum.update(part));
    sum.finalize().into()
}

/// Returns the 48-bit sequence number; the TLV contains the high 32 bits, `sequenceId` the low 16.
pub(super) const fn sequence48(high: u32, low: u16) -> u64 {
    (high as u64) << 16 | low as u64
}

fn identity(port: PortIdentity) -> [u8; 10] {
    let mut bytes = [0; 10];
    bytes[..8].copy_from_slice(&port.clock.0);
    bytes[8..].copy_from_slice(&port.port.to_be_bytes());
    bytes
}

fn timestamp(time: Timestamp) -> [u8; 10] {
    let mut bytes = [0; 10];
    bytes[..6].copy_from_slice(&time.seconds().to_be_bytes()[2..]);
    bytes[6..].copy_from_slice(&time.nanoseconds().to_be_bytes());
    bytes
}

/// Returns the fields of TLV and header that every text contains. Flags that hops may set are
/// omitted; of `flagField`, only the octet with the timescale is included.
pub(super) fn common(word: &[u8; 8], head: &SignedHead, header: &Header) -> Vec<u8> {
    let mut text = Vec::with_capacity(192);
    text.extend_from_slice(word);
    text.push(SignedHead::VERSION << 4 | head.suite as u8);
    text.push(head.flags.0 & !SignedFlags::INCOMPLETE);
    text.push(head.key_epoch);
    text.extend_from_slice(&header.sdo_id.to_be_bytes());
    text.push(header.domain);
    text.push(low_u8(header.flags.0.into()));
    text.extend_from_slice(&identity(header.source));
    text.extend_from_slice(&sequence48(head.sequence_high, header.sequence_id).to_be_bytes()[2..]);
    text
}

pub(super) fn push_time(text: &mut Vec<u8>, time: Timestamp) {
    text.extend_from_slice(&timestamp(time));
}

pub(super) fn push_port(text: &mut Vec<u8>, port: PortIdentity) {
    text.extend_from_slice(&identity(port));
}

/// The grandmaster's data about one Sync.
pub(super) struct Origin<'a> {
    pub(super) head: &'a SignedHead,
    pub(super) header: &'a Header,
    pub(super) body: &'a FollowUp,
    /// `correctionField` minus the contributions of the hops.
    pub(super) correction: TimeInterval,
    /// `originTimestamp` of the Sync, which contains the nonce.
    pub(super) nonce: Timestamp,
    /// VLAN identifier of the message, or 0xFFFF if it is not signed.
    pub(super) vid: u16,
    /// The TLVs before the signed one, encoded.
    pub(super) tlvs: &'a [u8],
}

/// Returns `T0`, the text that the grandmaster signs.
pub(super) fn grandmaster(origin: &Origin<'_>, next: ClockIdentity) -> Vec<u8> {
    let mut text = common(b"PSIG1-GM", origin.head, origin.header);
    push_time(&mut text, origin.body.precise_origin);
    text.extend_from_slice(&origin.correction.0.to_be_bytes());
    push_time(&mut text, origin.nonce);
    text.extend_from_slice(&origin.vid.to_be_bytes());
    text.extend_from_slice(&next.0);
    text.extend_from_slice(&hash(&[origin.tlvs]));
    text
}

/// Returns `Ti`, the text that transparent clock `i` signs.
pub(super) fn hop(
    before: &Hash,
    own: ClockIdentity,
    entry: &SignedEntry,
    previous: ClockIdentity,
    next: ClockIdentity,
) -> Vec<u8> {
    let mut text = Vec::with_capacity(80);
    text.extend_from_slice(b"PSIG1-TC");
    text.extend_from_slice(before);
    text.extend_from_slice(&own.0);
    text.push(entry.ingress_port);
    text.push(entry.egress_port);
    text.extend_from_slice(&previous.0);
    text.extend_from_slice(&next.0);
    text.extend_from_slice(&entry.contribution.0.to_be_bytes());
    text
}
