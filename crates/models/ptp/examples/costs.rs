//! What signatures cost: medians of interleaved rounds, in microseconds, and
//! ratios, which travel better between machines.
//!
//! `cargo run --release -p timeloom-ptp --example costs`

use std::hint::black_box;
use std::iter::{once, repeat};
use std::sync::Arc;
use std::time::Instant;

use timeloom_ptp::SplitMix;
use timeloom_ptp::security::{
    Hop, KeyRing, Limits, Member, MemoryLedger, Moment, Policy, SecretKey, Security, SyncFacts,
    VerifyJob,
};
use timeloom_wire::message::{FollowUp, patch_correction};
use timeloom_wire::tlv::{EntryForm, Suite};
use timeloom_wire::{
    ClockIdentity, Header, Message, MessageType, PortIdentity, TimeInterval, Timestamp,
};

const HOPS: u8 = 16;
const ROUNDS: usize = 200;

fn clock(node: u8) -> ClockIdentity {
    ClockIdentity([0, 0, 0, 0xff, 0xfe, 0, 0, node])
}

fn secret(suite: Suite, node: u8) -> SecretKey {
    SecretKey::from_random(suite, &[node + 1; 32])
}

fn ring(suite: Suite) -> Arc<KeyRing> {
    let mut ring = KeyRing::default();
    for node in 0..=HOPS + 1 {
        let secret = secret(suite, node);
        let (key, grandmaster) = (secret.public(), node == 0);
        let member = Member {
            clock: clock(node),
            index: node.into(),
            epoch: 1,
            key,
            grandmaster,
        };
        ring.insert(member, &secret.prove())
            .expect("the proof is its own");
    }
    Arc::new(ring)
}

fn security(suite: Suite, form: EntryForm, node: u8, ring: &Arc<KeyRing>) -> Security {
    Security {
        clock: clock(node),
        index: node.into(),
        secret: Arc::new(secret(suite, node)),
        epoch: 1,
        ring: ring.clone(),
        form,
        policy: Policy::Strict,
        limits: Limits::default(),
        watch: false,
        secondary: false,
        bind_vid: false,
        first_sequence: 0,
    }
}

#[derive(Default)]
struct Samples(Vec<f64>);

impl Samples {
    fn time<T>(&mut self, work: impl FnOnce() -> T) -> T {
        let start = Instant::now();
        let result = black_box(work());
        self.0.push(start.elapsed().as_secs_f64() * 1e6);
        result
    }

    /// What undisturbed work costs: long work on a busy machine seldom is.
    fn least(&self) -> f64 {
        self.0.iter().copied().fold(f64::INFINITY, f64::min)
    }

    fn median(&mut self) -> f64 {
        self.0.sort_by(f64::total_cmp);
        self.0[self.0.len() / 2]
    }
}

fn main() {
    let sync = SyncFacts {
        origin: Timestamp::from_ns(123),
        correction: TimeInterval::ZERO,
        vid: 0,
    };
    let source = PortIdentity {
        clock: clock(0),
        port: 1,
    };
    let body = FollowUp {
        precise_origin: Timestamp::from_ns(1_000_000_007),
    };
    let plain = Message::new(Header::new(MessageType::FollowUp, source, 5), body);
    for (suite, form) in [
        (Suite::Ed25519, EntryForm::Full),
        (Suite::Ed25519, EntryForm::Compact),
        (Suite::Bls, EntryForm::Full),
        (Suite::Bls, EntryForm::Compact),
        (Suite::BlsOnce, EntryForm::Full),
        (Suite::BlsOnce, EntryForm::Compact),
    ] {
        let ring = ring(suite);
        let nodes: Vec<_> = (0..=HOPS + 1)
            .map(|node| security(suite, form, node, &ring))
            .collect();
        nodes
            .iter()
            .for_each(|node| node.secret.keep(Box::<MemoryLedger>::default()));
        let (mut grandmaster, mut first, mut last, mut verify, mut sign, mut one, mut unsigned) =
            Default::default();
        let samples: [&mut Samples; 7] = [
            &mut grandmaster,
            &mut first,
            &mut last,
            &mut verify,
            &mut sign,
            &mut one,
            &mut unsigned,
        ];
        let [grandmaster, first, last, verify, sign, one, unsigned] = samples;
        let mut octets = 0;
        for round in 0..ROUNDS {
            // What can be computed ahead is, for this one Sync.
            let mut plain = plain;
            plain.header.sequence_id = round as u16;
            let before = Moment::new(&plain.header, 1, (7 << 16 | round as u64) - 1);
            for (node, port) in nodes.iter().zip([1].into_iter().chain(repeat(2))) {
                node.secret.expect(&before, once(port));
                node.secret.prepare(&mut SplitMix(round as u64));
            }
            let mut buffer = [0; 128];
            let mut bytes = [0; 256];
            let tlvs = grandmaster.time(|| {
                nodes[0].sign_follow_up(&plain.header, &body, &sync, 7, clock(1), &mut buffer)
            });
            let length = plain.with_tlvs(tlvs).emit(&mut bytes).expect("it fits");
            let mut message = bytes[..length].to_vec();
            for node in 1..=HOPS {
                let contribution = TimeInterval::from_ns(50_000);
                let (previous, next) = (clock(node - 1), clock(node + 1));
                let hop = Hop {
                    ingress: 1,
                    egress: 2,
                    previous,
                    next,
                    contribution,
                };
                let timer = if node == 1 { &mut *first } else { &mut *last };
                let extend = || {
                    nodes[usize::from(node)]
                        .extend(&message, &sync, &hop)
                        .expect("it fits")
                };
                message = if matches!(node, 1 | HOPS) {
                    timer.time(extend)
                } else {
                    extend()
                };
            }
            octets = message.len();
            unsigned.time(|| {
                let mut copy = bytes[..length].to_vec();
                let (header, _) = Header::parse(&copy).expect("a message");
                patch_correction(&mut copy, header.correction + TimeInterval::from_ns(50_000))
                    .expect("a header");
                copy
            });
            let job = VerifyJob::new(
                message,
                vec![sync],
                clock(HOPS + 1),
                Some(clock(HOPS)),
                ring.clone(),
                Policy::Strict,
                Limits::default(),
            );
            assert!(verify.time(|| job.run()).result.is_ok());
            let text = [7; 91];
            let signature = sign.time(|| nodes[1].secret.sign(&text));
            assert!(one.time(|| nodes[1].secret.public().verify(&text, &signature)));
        }
        let least = verify.least() / (17.0 * one.least());
        let (one, verify) = (one.median(), verify.median());
        println!(
            "{suite:?} {form:?}: Follow_Up {octets} octets; grandmaster {:.1} us, hop 1 {:.1} us, hop 16 {:.1} us \
             (plain sign {:.1} us; unsigned hop {:.2} us); verify 17 {verify:.0} us, one {one:.0} us, \
             17 / (17 x one) = {:.2}, undisturbed {least:.2}",
            grandmaster.median(),
            first.median(),
            last.median(),
            sign.median(),
            unsigned.median(),
            verify / (17.0 * one),
        );
    }
}
