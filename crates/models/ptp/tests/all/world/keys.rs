//! Keys of all clocks in a simulated world.

use std::sync::Arc;

use timeloom_ptp::security::{
    KeyRing, Limits, MemoryLedger, RingMember, SecretKey, Security, VerificationPolicy,
};
use timeloom_wire::ClockIdentity;
use timeloom_wire::tlv::{EntryForm, Suite};

pub fn identity(node: usize) -> ClockIdentity {
    ClockIdentity([
        0,
        0x1c,
        0x12,
        0xff,
        0xfe,
        0,
        (node >> 8) as u8,
        node as u8 + 1,
    ])
}

pub fn secret(suite: Suite, node: usize, epoch: u8) -> SecretKey {
    let mut seed = [0x5e; 32];
    seed[..8].copy_from_slice(&(node as u64).to_be_bytes());
    seed[8] = epoch;
    SecretKey::from_random(suite, &seed)
}

/// Returns a ring of `count` clocks, except those in `without`, with keys of epoch 1. The first
/// clock may be grandmaster.
pub fn ring(suite: Suite, count: usize, without: &[usize]) -> KeyRing {
    let mut ring = KeyRing::default();
    for node in (0..count).filter(|node| !without.contains(node)) {
        let secret = secret(suite, node, 1);
        let member = RingMember {
            clock: identity(node),
            index: node as u16,
            epoch: 1,
            key: secret.public(),
            grandmaster: node == 0,
        };
        ring.insert(member, &secret.prove()).unwrap();
    }
    ring
}

pub fn security(suite: Suite, form: EntryForm, node: usize, ring: &Arc<KeyRing>) -> Security {
    let secret = Arc::new(secret(suite, node, 1));
    secret.keep(Box::<MemoryLedger>::default());
    Security {
        clock: identity(node),
        index: node as u16,
        secret,
        epoch: 1,
        ring: ring.clone(),
        form,
        policy: VerificationPolicy::Strict,
        limits: Limits::default(),
        watch: suite.is_aggregate(),
        secondary: false,
        bind_vid: false,
        // The 16 bits on the wire wrap after 256 Syncs.
        first_sequence: 1_700_000_000 << 16 | 0xff00,
    }
}
