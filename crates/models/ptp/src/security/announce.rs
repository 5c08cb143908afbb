//! Signed Announces: only an authorised clock can become grandmaster.

use timeloom_wire::message::Announce;
use timeloom_wire::tlv::{SignedTlv, SubType, TlvWriter, Tlvs};
use timeloom_wire::{Header, Timestamp};

use super::peer::{key_of, single};
use super::text;
use super::{KeyRing, Security, ViolationKind};

/// Returns the text to sign: all fields except those that clocks on the path change
/// (`stepsRemoved`, PATH_TRACE and the inaccuracy of the power profile).
fn announce_text(
    head: &timeloom_wire::tlv::SignedHead,
    header: &Header,
    body: &Announce,
) -> Vec<u8> {
    let mut text = text::common(b"PSIG1-AN", head, header);
    text::push_time(&mut text, Timestamp::ZERO);
    text.extend_from_slice(&body.current_utc_offset.to_be_bytes());
    let quality = body.grandmaster_quality;
    text.extend_from_slice(&[
        body.grandmaster_priority1,
        quality.class,
        quality.accuracy,
        body.grandmaster_priority2,
    ]);
    text.extend_from_slice(&quality.offset_scaled_log_variance.to_be_bytes());
    text.extend_from_slice(&body.grandmaster.0);
    text.push(body.time_source);
    text
}

/// Appends the signed TLV for an Announce to `writer`. `sequence_high` and the header's
/// `sequenceId` form the 48-bit number by which replays are detected.
pub fn sign_announce(
    security: &Security,
    header: &Header,
    body: &Announce,
    sequence_high: u32,
    writer: &mut TlvWriter<'_>,
) {
    let head = security.head(SubType::Announce, sequence_high, 0);
    let signature = security.secret.sign(&announce_text(&head, header, body));
    writer
        .push(SignedTlv::KIND, |to| {
            SignedTlv::emit(&head, 0, to, |to| to.put(&signature))
        })
        .expect("an Announce with its TLVs fits");
}

/// Verifies that an Announce is signed by its sender, that the sender may be grandmaster, and that
/// the Announce names the sender as grandmaster. Returns the 48-bit number, which the caller must
/// check for a replay.
pub fn verify_announce(
    ring: &KeyRing,
    header: &Header,
    body: &Announce,
    tlvs: &Tlvs<'_>,
) -> Result<u64, ViolationKind> {
    let tlv = single(tlvs, SubType::Announce)?;
    let key = key_of(ring, header.source.clock, &tlv)?;
    let authorised = ring
        .member(header.source.clock, tlv.head.key_epoch)
        .is_some_and(|member| member.grandmaster);
    if !authorised || body.grandmaster != header.source.clock {
        return Err(ViolationKind::NotAuthorised);
    }
    if !key.verify(&announce_text(&tlv.head, header, body), tlv.signature()) {
        return Err(ViolationKind::Announce);
    }
    Ok(text::sequence48(tlv.head.sequence_high, header.sequence_id))
}
