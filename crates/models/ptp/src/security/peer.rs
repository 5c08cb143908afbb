//! Signed peer delay, which proves the identity of the clock at the other end of the link.

use timeloom_wire::tlv::{SignedTlv, SubType, TlvWriter, Tlvs};
use timeloom_wire::{ClockIdentity, Header, PortIdentity, TimeInterval, Timestamp};

use super::text;
use super::{KeyRing, ORGANIZATION, Security, ViolationKind};

/// Data that a responder signs: both ports, the request's nonce, the responder's two timestamps,
/// and the corrections of both messages.
#[derive(Clone, Copy, Debug)]
pub struct PeerFacts {
    /// Port that sent the request.
    pub requesting: PortIdentity,
    /// `originTimestamp` of the request, which contains the nonce.
    pub nonce: Timestamp,
    /// Arrival time of the request at the responder.
    pub request_receipt: Timestamp,
    /// Departure time of the response from the responder.
    pub response_origin: Timestamp,
    /// `correctionField` of the response.
    pub response_correction: TimeInterval,
}

fn peer_text(head: &timeloom_wire::tlv::SignedHead, header: &Header, facts: &PeerFacts) -> Vec<u8> {
    let mut text = text::common(b"PSIG1-PD", head, header);
    text::push_port(&mut text, facts.requesting);
    text::push_time(&mut text, facts.nonce);
    text::push_time(&mut text, facts.request_receipt);
    text::push_time(&mut text, facts.response_origin);
    text.extend_from_slice(&facts.response_correction.0.to_be_bytes());
    text.extend_from_slice(&header.correction.0.to_be_bytes());
    text
}

/// Writes the signed TLV for a Pdelay_Resp_Follow_Up with `header` into `buffer`.
pub fn sign_peer<'a>(
    security: &Security,
    header: &Header,
    facts: &PeerFacts,
    buffer: &'a mut [u8],
) -> Tlvs<'a> {
    let head = security.head(SubType::Pdelay, 0, 0);
    let signature = security.secret.sign(&peer_text(&head, header, facts));
    let mut writer = TlvWriter::new(buffer);
    writer
        .push(SignedTlv::KIND, |to| {
            SignedTlv::emit(&head, 0, to, |to| to.put(&signature))
        })
        .expect("a TLV without hops fits");
    writer.finish()
}

/// Verifies the signed TLV of a Pdelay_Resp_Follow_Up. The nonce proves that the message is recent,
/// so no sequence number has to be stored.
pub fn verify_peer(
    ring: &KeyRing,
    header: &Header,
    facts: &PeerFacts,
    tlvs: &Tlvs<'_>,
) -> Result<(), ViolationKind> {
    let tlv = single(tlvs, SubType::Pdelay)?;
    let key = key_of(ring, header.source.clock, &tlv)?;
    if key.verify(&peer_text(&tlv.head, header, facts), tlv.signature()) {
        Ok(())
    } else {
        Err(ViolationKind::Pdelay)
    }
}

pub(super) fn single<'a>(
    tlvs: &Tlvs<'a>,
    sub_type: SubType,
) -> Result<SignedTlv<'a>, ViolationKind> {
    let tlv = tlvs
        .iter()
        .find_map(|tlv| SignedTlv::parse(tlv, ORGANIZATION))
        .ok_or(ViolationKind::Unsigned)?;
    match tlv {
        Ok(tlv) if tlv.head.sub_type == sub_type => Ok(tlv),
        _ => Err(ViolationKind::Malformed),
    }
}

pub(super) fn key_of<'r>(
    ring: &'r KeyRing,
    clock: ClockIdentity,
    tlv: &SignedTlv<'_>,
) -> Result<&'r super::PublicKey, ViolationKind> {
    if !ring.is_valid(tlv.head.key_epoch) {
        return Err(ViolationKind::Epoch);
    }
    let member = ring
        .member(clock, tlv.head.key_epoch)
        .ok_or(ViolationKind::UnknownSigner)?;
    if member.key.suite() == tlv.head.suite {
        Ok(&member.key)
    } else {
        Err(ViolationKind::Suite)
    }
}
