//! Clocks with keys, and chains of Follow_Ups, for the measurements.

use std::cell::Cell;
use std::iter::once;
use std::sync::Arc;

use timeloom_ptp::SplitMix64;
use timeloom_ptp::security::{
    Hop, KeyRing, Limits, MemoryLedger, RingMember, Role, SecretKey, Security, Statement,
    SyncFacts, SyncName, VerificationPolicy, VerifyJob,
};
use timeloom_wire::message::FollowUp;
use timeloom_wire::tlv::{EntryForm, Suite};
use timeloom_wire::{
    ClockIdentity, Header, Message, MessageType, PortIdentity, TimeInterval, Timestamp,
};

/// Number of transparent clocks in the longest measured path, as in the thesis.
pub(super) const HOPS: u8 = 16;

/// Returns the identity of a node. Node 0 is the grandmaster, nodes 1 … n are transparent clocks,
/// and node n + 1 is the slave.
pub(super) const fn clock(node: u8) -> ClockIdentity {
    ClockIdentity([0, 0x1c, 0x12, 0xff, 0xfe, 0, 0, node + 1])
}

/// Keys of all nodes. They are the same in every run, because the cost does not depend on their
/// values and they protect nothing.
pub(super) struct Keys {
    suite: Suite,
    ring: Arc<KeyRing>,
}

impl Keys {
    pub(super) fn new(suite: Suite) -> Self {
        let mut ring = KeyRing::default();
        for node in 0..=HOPS + 1 {
            let secret = secret(suite, node);
            let member = RingMember {
                clock: clock(node),
                index: node.into(),
                epoch: 1,
                key: secret.public(),
                grandmaster: node == 0,
            };
            ring.insert(member, &secret.prove())
                .expect("the proof is its own");
        }
        Self {
            suite,
            ring: Arc::new(ring),
        }
    }

    pub(super) fn security(&self, node: u8, form: EntryForm) -> Security {
        let secret = Arc::new(secret(self.suite, node));
        // These keys do not outlive the process, so a ledger in memory is sufficient.
        secret.keep(Box::<MemoryLedger>::default());
        Security {
            clock: clock(node),
            index: node.into(),
            secret,
            epoch: 1,
            ring: self.ring.clone(),
            form,
            policy: VerificationPolicy::Strict,
            limits: Limits::default(),
            watch: false,
            secondary: false,
            bind_vid: false,
            first_sequence: 1_700_000_000 << 16,
        }
    }
}

fn secret(suite: Suite, node: u8) -> SecretKey {
    SecretKey::from_random(suite, &[node + 1; 32])
}

/// Returns the lengths in octets of two records for the second network, signed with Ed25519: the
/// grandmaster's, and that of a transparent clock.
pub(super) fn statements() -> (usize, usize) {
    let keys = Keys::new(Suite::Ed25519);
    let record = |node: u8, role| {
        let statement = Statement {
            clock: clock(node),
            epoch: 1,
            source: PortIdentity::default(),
            domain: 0,
            sequence: 5,
            next: clock(node + 1),
            view: [0; 8],
            correction_out: TimeInterval::ZERO,
            role,
        };
        statement.sign(&keys.security(node, EntryForm::Full)).len()
    };
    let origin = Role::Origin {
        precise_origin: Timestamp::ZERO,
        sequence48: 5,
    };
    let hop = Role::Hop {
        ingress: 1,
        egress: 2,
        previous: clock(0),
        contribution: TimeInterval::ZERO,
    };
    (record(0, origin), record(1, hop))
}

/// A Sync with its signers, in the order of the path.
pub(super) struct Chain {
    /// 48-bit number of the Sync.
    number: Cell<u64>,
    nodes: Vec<Security>,
    ring: Arc<KeyRing>,
    plain: Message<'static>,
    body: FollowUp,
    sync: SyncFacts,
}

impl Chain {
    pub(super) fn new(keys: &Keys, form: EntryForm) -> Self {
        let source = PortIdentity {
            clock: clock(0),
            port: 1,
        };
        let body = FollowUp {
            precise_origin: Timestamp::from_ns(1_000_000_007),
        };
        Self {
            number: Cell::new(7 << 16),
            nodes: (0..=HOPS + 1).map(|n| keys.security(n, form)).collect(),
            ring: keys.ring.clone(),
            plain: Message::new(Header::new(MessageType::FollowUp, source, 5), body),
            body,
            sync: SyncFacts {
                origin: Timestamp::from_ns(123_456_789),
                correction: TimeInterval::ZERO,
                vid: 0,
            },
        }
    }

    /// Begins the next Sync, because some keys sign each Sync only once.
    pub(super) fn next_sync(&self) {
        self.number.set(self.number.get() + 1);
    }

    fn header(&self) -> Header {
        Header {
            sequence_id: self.number.get() as u16,
            ..self.plain.header
        }
    }

    /// Makes node `node` precompute as much as possible for its next signature.
    pub(super) fn prepare(&self, node: u8) {
        let secret = &self.nodes[usize::from(node)].secret;
        let before = SyncName::new(&self.header(), 1, self.number.get() - 1);
        secret.expect(&before, once(if node == 0 { 1 } else { 2 }));
        secret.prepare(&mut SplitMix64(node.into()));
    }

    /// Returns the grandmaster's Follow_Up.
    pub(super) fn grandmaster(&self) -> Vec<u8> {
        let mut buffer = [0; 128];
        let plain = Message::new(self.header(), self.body);
        let tlvs = self.nodes[0].sign_follow_up(
            &plain.header,
            &self.body,
            &self.sync,
            (self.number.get() >> 16) as u32,
            clock(1),
            &mut buffer,
        );
        let mut bytes = [0; 256];
        let length = plain.with_tlvs(tlvs).emit(&mut bytes);
        bytes[..length.expect("a Follow_Up without hops fits")].to_vec()
    }

    /// Returns `message` extended by the entry and signature of node `hop`.
    pub(super) fn extend(&self, hop: u8, message: &[u8]) -> Vec<u8> {
        let facts = Hop {
            ingress: 1,
            egress: 2,
            previous: clock(hop - 1),
            next: clock(hop + 1),
            contribution: TimeInterval::from_ns(50_000),
        };
        self.nodes[usize::from(hop)]
            .extend(message, &self.sync, &facts)
            .expect("the chain is its own and fits a frame")
    }

    /// Returns the verification job of a slave behind `hops` transparent clocks.
    pub(super) fn job(&self, hops: u8, message: Vec<u8>) -> VerifyJob {
        VerifyJob::new(
            message,
            vec![self.sync],
            clock(hops + 1),
            Some(clock(hops)),
            self.ring.clone(),
            VerificationPolicy::Strict,
            Limits::default(),
        )
    }

    /// Signs a text with the length of a hop's text. Returns a function that verifies the
    /// signature.
    pub(super) fn single(&self) -> impl Fn() -> bool + use<'_> {
        let text = vec![7; 80];
        let secret = &self.nodes[1].secret;
        let (public, signature) = (secret.public(), secret.sign(&text));
        move || public.verify(&text, &signature)
    }
}
