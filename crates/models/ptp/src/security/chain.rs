//! Parsed chain of signatures in a received Follow_Up.

use timeloom_wire::message::{Body, FollowUp};
use timeloom_wire::tlv::{SignedEntry, SignedFlags, SignedTlv, SubType, Suite};
use timeloom_wire::{ClockIdentity, Header, Message, TimeInterval};

use super::once::{SyncName, key_port};
use super::text::{self, Hash, Origin};
use super::{KeyRing, ORGANIZATION, SyncFacts, ViolationKind};

/// Part of one signer: identity, signed text, and signature.
pub(super) struct Link<'a> {
    pub(super) clock: ClockIdentity,
    /// Port whose key was used, in the suite with one key per port; `None` for an ordinary key.
    pub(super) port: Option<u8>,
    pub(super) text: Vec<u8>,
    pub(super) signature: &'a [u8],
}

pub(super) struct Chain<'a> {
    pub(super) header: Header,
    pub(super) body: FollowUp,
    /// The TLVs before the signed one, encoded.
    pub(super) before: &'a [u8],
    pub(super) tlv: SignedTlv<'a>,
    /// Hops with their entries and signatures. The clock is `None` if the key ring does not contain
    /// the entry's index.
    pub(super) hops: Vec<(Option<ClockIdentity>, SignedEntry, &'a [u8])>,
}

impl<'a> Chain<'a> {
    /// Parses a Follow_Up. The signed TLV must be the last one, because no signature covers later
    /// TLVs.
    pub(super) fn parse(message: &Message<'a>, ring: &KeyRing) -> Result<Self, ViolationKind> {
        let Body::FollowUp(body) = message.body else {
            return Err(ViolationKind::Malformed);
        };
        let bytes = message.tlvs.as_bytes();
        let mut at = 0;
        for tlv in message.tlvs.iter() {
            let end = at + 4 + tlv.value.len();
            if let Some(signed) = SignedTlv::parse(tlv, ORGANIZATION) {
                let tlv = signed.map_err(|_| ViolationKind::Malformed)?;
                if end != bytes.len() || tlv.head.sub_type != SubType::FollowUp {
                    return Err(ViolationKind::Malformed);
                }
                let hops = tlv
                    .entries()
                    .map(|(entry, signature)| (ring.resolve(entry.signer), entry, signature));
                return Ok(Self {
                    header: message.header,
                    body,
                    before: &bytes[..at],
                    tlv,
                    hops: hops.collect(),
                });
            }
            at = end;
        }
        Err(ViolationKind::Unsigned)
    }

    pub(super) fn sequence48(&self) -> u64 {
        text::sequence48(self.tlv.head.sequence_high, self.header.sequence_id)
    }

    /// Returns the name of the Sync to which the Follow_Up belongs. A restarted chain does not
    /// contain the grandmaster's 48-bit number.
    pub(super) fn moment(&self) -> SyncName {
        SyncName::new(&self.header, self.tlv.head.key_epoch, self.sequence48())
    }

    /// Returns true if signatures may be made with keys that sign once per Sync.
    pub(super) fn is_once(&self) -> bool {
        let head = &self.tlv.head;
        head.suite == Suite::BlsOnce && !head.flags.has(SignedFlags::RESTARTED)
    }

    /// Returns `correctionField` minus the contributions of the hops.
    pub(super) fn excess(&self) -> TimeInterval {
        self.header.correction
            - self
                .hops
                .iter()
                .map(|(_, entry, _)| entry.contribution)
                .sum()
    }

    /// Returns true if the grandmaster permits clocks that do not sign to add to the correction.
    pub(super) fn allows_excess(&self) -> bool {
        self.tlv.head.flags.has(EXCESS)
    }

    /// Returns the text and signature of each signer, and the final running hash. `last_next` is
    /// the clock after the last signer.
    pub(super) fn links(
        &self,
        sync: &SyncFacts,
        last_next: ClockIdentity,
    ) -> (Vec<Link<'a>>, Hash) {
        // If clocks that do not sign are permitted, the next hop may not be the next signer; the
        // grandmaster's permission removes this binding.
        let clock_at = |at: usize| match self.hops.get(at) {
            _ if self.allows_excess() => ClockIdentity::default(),
            Some((clock, ..)) => clock.unwrap_or_default(),
            None => last_next,
        };
        let origin = Origin {
            head: &self.tlv.head,
            header: &self.header,
            body: &self.body,
            correction: if self.allows_excess() {
                TimeInterval::ZERO
            } else {
                self.excess()
            },
            nonce: sync.origin,
            vid: if self.tlv.head.flags.has(SignedFlags::VID) {
                sync.vid
            } else {
                0xffff
            },
            tlvs: self.before,
        };
        let aggregate = self
            .tlv
            .entries()
            .all(|(_, signature)| signature.is_empty())
            && self.is_aggregate();
        let first = text::grandmaster(&origin, clock_at(0));
        let first_signature: &[u8] = if aggregate { &[] } else { self.tlv.signature() };
        // With Ed25519 the signatures are hashed too. Corrupting one of them then invalidates all
        // signatures up to the attacker's (see the module's documentation).
        let mut running = text::hash(&[&first, first_signature]);
        let first_port = (self.is_once() && !self.tlv.head.flags.has(SignedFlags::ORDINARY))
            .then(|| u8::try_from(self.header.source.port).unwrap_or(u8::MAX));
        let mut links = vec![Link {
            clock: self.header.source.clock,
            port: first_port,
            text: first,
            signature: first_signature,
        }];
        let mut previous = self.header.source.clock;
        for (at, (clock, entry, signature)) in self.hops.iter().enumerate() {
            let own = clock.unwrap_or_default();
            let text = text::hop(&running, own, entry, previous, clock_at(at + 1));
            running = text::hash(&[&text, signature]);
            // In a restarted chain, a port's key would sign for an unknown Sync.
            let port = match self.tlv.head.suite {
                Suite::BlsOnce => key_port(entry.egress_port),
                _ => None,
            };
            links.push(Link {
                clock: own,
                port: if self.is_once() || port.is_none() {
                    port
                } else {
                    Some(u8::MAX)
                },
                text,
                signature,
            });
            previous = own;
        }
        (links, running)
    }

    pub(super) fn is_aggregate(&self) -> bool {
        self.tlv.head.suite.is_aggregate()
    }

    /// Returns the number of signers at the front without a signature. A restarted chain begins
    /// with the grandmaster and with the neighbour from which the broken chain arrived.
    pub(super) fn unsigned_front(&self) -> usize {
        if self.tlv.head.flags.has(SignedFlags::RESTARTED) {
            2
        } else {
            0
        }
    }
}

/// Flag of the grandmaster that permits transparent clocks that do not sign
/// ([`super::VerificationPolicy::Mixed`]).
pub(super) const EXCESS: u8 = 64;

/// Returns the 48-bit number that a Follow_Up claims; it is not verified. `None` for a restarted
/// chain, because the clock that restarted it did not know the number.
pub(crate) fn sequence_of(message: &Message<'_>) -> Option<u64> {
    let tlv = message
        .tlvs
        .iter()
        .find_map(|tlv| SignedTlv::parse(tlv, ORGANIZATION)?.ok())?;
    let claimed = text::sequence48(tlv.head.sequence_high, message.header.sequence_id);
    (!tlv.head.flags.has(SignedFlags::RESTARTED)).then_some(claimed)
}
