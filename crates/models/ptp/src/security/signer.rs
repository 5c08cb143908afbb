//! Data with which a clock signs, and the signature of the grandmaster.

use std::sync::Arc;

use timeloom_wire::message::FollowUp;
use timeloom_wire::tlv::{
    EntryForm, SignedFlags, SignedHead, SignedTlv, Signer, SubType, Suite, TlvWriter, Tlvs,
};
use timeloom_wire::{ClockIdentity, Header, TimeInterval, Timestamp};

use super::chain::EXCESS;
use super::once::SyncName;
use super::text::{self, Origin};
use super::{KeyRing, Limits, ORGANIZATION, SecretKey, VerificationPolicy};

/// Fields of a Sync that the signatures in its Follow_Up cover.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SyncFacts {
    /// `originTimestamp`, which contains the nonce.
    pub origin: Timestamp,
    /// `correctionField`.
    pub correction: TimeInterval,
    /// VLAN identifier of the received Sync; 0 without a tag.
    pub vid: u16,
}

/// A clock's own secret key, and the public keys of all clocks.
#[derive(Clone, Debug)]
pub struct Security {
    /// Identity of this clock.
    pub clock: ClockIdentity,
    /// Index of this clock in the key file.
    pub index: u16,
    /// Secret key of this clock.
    pub secret: Arc<SecretKey>,
    /// Epoch (generation) of the secret key.
    pub epoch: u8,
    /// Public keys of all clocks.
    pub ring: Arc<KeyRing>,
    /// Form of the entries. The grandmaster chooses it, and hops use the form of the received
    /// chain.
    pub form: EntryForm,
    /// Policy of a slave after a failed verification.
    pub policy: VerificationPolicy,
    /// Limits for plausible values.
    pub limits: Limits,
    /// True if a transparent clock verifies a chain before it signs, and restarts a broken one.
    /// With aggregates, this is the only way to find the responsible hop.
    pub watch: bool,
    /// True if Follow_Ups stay unchanged and clocks send statements over a second network instead.
    pub secondary: bool,
    /// True if a grandmaster binds its messages to their VLAN identifier, so that they are valid in
    /// that VLAN only. Not suitable if access ports of the network remove the tag before the slave
    /// sees it.
    pub bind_vid: bool,
    /// First 48-bit sequence number of a grandmaster: the start time in seconds · 2^16, or the last
    /// stored number plus one. It must never have been used before.
    pub first_sequence: u64,
}

impl Security {
    pub(crate) fn head(&self, sub_type: SubType, sequence_high: u32, flags: u8) -> SignedHead {
        SignedHead {
            organization: ORGANIZATION,
            sub_type,
            suite: self.secret.suite(),
            flags: SignedFlags(flags),
            key_epoch: self.epoch,
            sequence_high,
        }
    }

    pub(crate) fn signer(&self, form: EntryForm) -> Signer {
        match form {
            EntryForm::Full => Signer::Identity(self.clock),
            EntryForm::Compact | EntryForm::CompactWithPort => Signer::Index(self.index),
        }
    }

    /// Writes the grandmaster's signed TLV for a Follow_Up to the clock `next` into `buffer`, which
    /// must have 82 octets.
    pub fn sign_follow_up<'a>(
        &self,
        header: &Header,
        body: &FollowUp,
        sync: &SyncFacts,
        sequence_high: u32,
        next: ClockIdentity,
        buffer: &'a mut [u8],
    ) -> Tlvs<'a> {
        let compact = if self.form == EntryForm::Compact {
            SignedFlags::COMPACT
        } else {
            0
        };
        let moment = SyncName::new(
            header,
            self.epoch,
            text::sequence48(sequence_high, header.sequence_id),
        );
        let ticket = self.secret.ticket(&moment, header.source.port);
        let ordinary = if self.secret.suite() == Suite::BlsOnce && ticket.is_none() {
            SignedFlags::ORDINARY
        } else {
            0
        };
        let excess = if matches!(self.policy, VerificationPolicy::Mixed { .. }) {
            EXCESS
        } else {
            0
        };
        let vlan = if self.bind_vid { SignedFlags::VID } else { 0 };
        let head = self.head(
            SubType::FollowUp,
            sequence_high,
            SignedFlags::NONCE | compact | excess | vlan | ordinary,
        );
        let origin = Origin {
            head: &head,
            header,
            body,
            correction: header.correction,
            nonce: sync.origin,
            vid: if self.bind_vid { sync.vid } else { 0xffff },
            tlvs: &[],
        };
        let next = if excess == 0 {
            next
        } else {
            ClockIdentity::default()
        };
        let text = text::grandmaster(&origin, next);
        let signature = ticket
            .and_then(|ticket| ticket.sign_onto(None, &text))
            .unwrap_or_else(|| self.secret.sign(&text));
        let mut writer = TlvWriter::new(buffer);
        writer
            .push(SignedTlv::KIND, |to| {
                SignedTlv::emit(&head, 0, to, |to| to.put(&signature))
            })
            .expect("a TLV without hops fits");
        writer.finish()
    }
}
