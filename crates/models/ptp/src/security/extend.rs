//! Signing of a Follow_Up by a transparent clock.

use timeloom_wire::message::{Body, patch_correction, patch_length};
use timeloom_wire::tlv::{
    EntryForm, SignedEntry, SignedFlags, SignedHead, SignedTlv, SubType, Suite, TlvWriter,
};
use timeloom_wire::{ClockIdentity, EmitError, Header, Message, TimeInterval};

use super::chain::{Chain, sequence_of};
use super::once::{SyncName, marked_port};
use super::text;
use super::{ORGANIZATION, Security, SyncFacts, ViolationKind};
use crate::outbox::MAX_MESSAGE;

/// Contribution of a transparent clock (hop) to one Sync.
#[derive(Clone, Copy, Debug)]
pub struct Hop {
    /// Port by which the Sync arrived.
    pub ingress: u16,
    /// Port by which the Sync left.
    pub egress: u16,
    /// Clock at the other end of the ingress link.
    pub previous: ClockIdentity,
    /// Clock at the other end of the egress link.
    pub next: ClockIdentity,
    /// Sum of residence time, delay of the ingress link, and asymmetry.
    pub contribution: TimeInterval,
}

impl Security {
    /// Returns the Follow_Up to send, with the contribution, an entry and a signature added. Fails
    /// if the received Follow_Up has no chain of signatures that can be continued.
    pub fn extend(
        &self,
        message: &[u8],
        sync: &SyncFacts,
        hop: &Hop,
    ) -> Result<Vec<u8>, ViolationKind> {
        let parsed = Message::parse(message).map_err(|_| ViolationKind::Malformed)?;
        let chain = Chain::parse(&parsed, &self.ring)?;
        let head = chain.tlv.head;
        // A clock does not sign a chain with faults that are visible without checking a signature.
        let last = chain
            .hops
            .last()
            .map_or(Some(chain.header.source.clock), |(clock, ..)| *clock);
        let mixed = chain.allows_excess();
        if last != Some(hop.previous) && !mixed {
            return Err(ViolationKind::Path);
        }
        if head.suite != self.secret.suite() {
            return Err(ViolationKind::Suite);
        }
        if head.key_epoch != self.epoch {
            return Err(ViolationKind::Epoch);
        }
        let ticket = chain
            .is_once()
            .then(|| self.secret.ticket(&chain.moment(), hop.egress))
            .flatten();
        let entry = self.entry(&head, hop, ticket.is_some());
        let (_, running) = chain.links(sync, self.clock);
        let next = if mixed {
            ClockIdentity::default()
        } else {
            hop.next
        };
        let previous = last.ok_or(ViolationKind::UnknownSigner)?;
        let own = text::hop(&running, self.clock, &entry, previous, next);
        let signed = match ticket {
            Some(ticket) => ticket.sign_onto(Some(chain.tlv.signature()), &own),
            None if head.suite.is_aggregate() => self.secret.sign_onto(chain.tlv.signature(), &own),
            None => Some(self.secret.sign(&own)),
        };
        let signed = signed.ok_or(ViolationKind::Malformed)?;
        let correction = chain.header.correction + hop.contribution;
        let keep = MESSAGE_FRONT + chain.before.len();
        self.assemble(
            &message[..keep],
            &head,
            chain.tlv.hops + 1,
            correction,
            |to| {
                if head.suite == Suite::Ed25519 {
                    to.put(chain.tlv.signature())?;
                }
                for (_, entry, signature) in &chain.hops {
                    entry.emit(to)?;
                    to.put(signature)?;
                }
                entry.emit(to)?;
                to.put(&signed)
            },
        )
        .ok_or(ViolationKind::TooLong)
    }

    /// Returns true if [`Security::extend`] takes only microseconds because its expensive part is
    /// precomputed. The caller can then run it directly instead of in another thread.
    pub(crate) fn is_quick(&self, message: &[u8], egress: u16) -> bool {
        let moment = || {
            let message = Message::parse(message).ok()?;
            let sequence48 = sequence_of(&message)?;
            Some(SyncName::new(&message.header, self.epoch, sequence48))
        };
        self.secret.is_prepared()
            || self.secret.suite() == Suite::BlsOnce
                && moment().is_some_and(|moment| self.secret.is_prepared_for(&moment, egress))
    }

    /// Returns a new chain that reports a broken one. It contains no signature of the grandmaster,
    /// an entry of the upstream neighbour without a signature, and the signed entry of this clock.
    /// A slave locates the fault as in any other broken chain.
    pub(crate) fn restart(&self, message: &[u8], sync: &SyncFacts, hop: &Hop) -> Option<Vec<u8>> {
        let parsed = Message::parse(message).ok()?;
        let Body::FollowUp(_) = parsed.body else {
            return None;
        };
        let compact = if self.form == EntryForm::Compact {
            SignedFlags::COMPACT
        } else {
            0
        };
        let head = self.head(SubType::FollowUp, 0, SignedFlags::RESTARTED | compact);
        let accused = SignedEntry {
            signer: match self.form {
                EntryForm::Full => timeloom_wire::tlv::Signer::Identity(hop.previous),
                _ => timeloom_wire::tlv::Signer::Index(
                    self.ring.member(hop.previous, self.epoch)?.index,
                ),
            },
            ingress_port: 0,
            egress_port: 0,
            contribution: TimeInterval::ZERO,
        };
        // Build a message with one unsigned entry, which is then extended as usual.
        let blank = if head.suite.is_aggregate() {
            INFINITY.to_vec()
        } else {
            vec![0; 64]
        };
        let broken = self.assemble(
            &message[..MESSAGE_FRONT],
            &head,
            1,
            parsed.header.correction,
            |to| {
                if head.suite == Suite::Ed25519 {
                    to.put(&blank)?;
                }
                accused.emit(to)?;
                to.put(&blank)
            },
        )?;
        self.extend(&broken, sync, hop).ok()
    }

    /// Returns the Follow_Up without an entry of this clock, marked as incomplete. It is used for a
    /// path that does not fit a frame: Syncs continue, and slaves know that not every clock has
    /// signed.
    pub(crate) fn mark_incomplete(
        &self,
        message: &[u8],
        contribution: TimeInterval,
    ) -> Option<Vec<u8>> {
        let parsed = Message::parse(message).ok()?;
        let chain = Chain::parse(&parsed, &self.ring).ok()?;
        let mut marked = message.to_vec();
        let flags = marked.get_mut(MESSAGE_FRONT + chain.before.len() + FLAGS_IN_TLV)?;
        *flags |= SignedFlags::INCOMPLETE;
        patch_correction(&mut marked, chain.header.correction + contribution).ok()?;
        Some(marked)
    }

    fn entry(&self, head: &SignedHead, hop: &Hop, prepared: bool) -> SignedEntry {
        let form = head.form();
        let port = |number: u16| match form {
            EntryForm::Full => u8::try_from(number).unwrap_or(u8::MAX),
            _ => 0,
        };
        SignedEntry {
            signer: self.signer(form),
            ingress_port: port(hop.ingress),
            egress_port: match head.suite {
                Suite::BlsOnce => marked_port(hop.egress, form != EntryForm::Full, prepared),
                _ => port(hop.egress),
            },
            contribution: hop.contribution,
        }
    }

    fn assemble(
        &self,
        front: &[u8],
        head: &SignedHead,
        hops: u8,
        correction: TimeInterval,
        fill: impl FnOnce(&mut timeloom_wire::Writer<'_>) -> Result<(), EmitError>,
    ) -> Option<Vec<u8>> {
        debug_assert_eq!(head.organization, ORGANIZATION);
        if hops > SignedTlv::MAX_HOPS {
            return None;
        }
        let mut buffer = [0; MAX_MESSAGE];
        let (target, room) = buffer.split_at_mut(front.len());
        target.copy_from_slice(front);
        let mut writer = TlvWriter::new(room);
        writer
            .push(SignedTlv::KIND, |to| SignedTlv::emit(head, hops, to, fill))
            .ok()?;
        let length = front.len() + writer.finish().as_bytes().len();
        let message = &mut buffer[..length];
        patch_correction(message, correction).ok()?;
        patch_length(message, u16::try_from(length).ok()?).ok()?;
        Some(message.to_vec())
    }
}

/// Length of header and body of a Follow_Up, in octets.
const MESSAGE_FRONT: usize = Header::LENGTH + 10;

/// Offset of the flags octet within the signed TLV.
const FLAGS_IN_TLV: usize = 11;

/// Compressed neutral element of G1: the aggregate of no signatures.
const INFINITY: [u8; 48] = {
    let mut bytes = [0; 48];
    bytes[0] = 0xc0;
    bytes
};
