//! Keys for all clocks of a simulated network, derived from one seed. Runs are therefore
//! repeatable, but such keys must not be used outside of a simulation.

use std::sync::Arc;

use timeloom_net::{Node, World};
use timeloom_ptp::security::{
    KeyError, KeyRing, Limits, MemoryLedger, RingMember, SecretKey, Security,
};
use timeloom_ptp::{RandomSource, SplitMix64};
use timeloom_time::{Instant, Utc};
use timeloom_wire::ClockIdentity;
use timeloom_wire::tlv::{EntryForm, Suite};

use crate::{PtpNode, Role};

pub use timeloom_ptp::security::VerificationPolicy;

/// Settings for signed messages in a network.
#[derive(Clone, Copy, Debug)]
pub struct SigningConfig {
    /// Signature suite.
    pub suite: Suite,
    /// Policy of slaves for messages whose verification fails.
    pub policy: VerificationPolicy,
    /// Seed from which all keys are derived.
    pub seed: u64,
    /// Civil time at virtual time zero; sequence numbers start from it.
    pub epoch: Instant<Utc>,
}

/// Generation of the keys, which do not change during a run.
pub const EPOCH: u8 = 1;

/// Secret key of a clock, for a real program that takes part in the simulated network.
#[derive(Clone, Copy, Debug)]
pub struct ClockSecret {
    /// Identity of the clock, derived from the MAC address of the node's first port.
    pub clock: ClockIdentity,
    /// Index of the clock in the ring.
    pub index: u16,
    /// Octets from which the key is derived.
    pub octets: [u8; 32],
    /// Number of the clock's ports.
    pub ports: u8,
    /// True if the clock may be grandmaster.
    pub grandmaster: bool,
}

impl SigningConfig {
    /// Returns the secret key of each clock, in the order of `clocks`.
    pub fn secrets(&self, world: &World, clocks: &[(Node, Role)]) -> Vec<ClockSecret> {
        let mut random = SplitMix64(self.seed);
        let secret = |(index, (node, role)): (usize, &(Node, Role))| {
            let ports = world.cables().filter(|cable| cable.from == *node).count();
            let mut octets = [0; 32];
            for part in octets.chunks_exact_mut(8) {
                part.copy_from_slice(&random.next_u64().to_be_bytes());
            }
            ClockSecret {
                clock: PtpNode::identity_at(world, *node),
                index: member_index(index),
                octets,
                ports: u8::try_from(ports).unwrap_or(u8::MAX),
                grandmaster: *role == Role::Grandmaster,
            }
        };
        clocks.iter().enumerate().map(secret).collect()
    }

    /// Returns the security data of each clock, with the public keys of all, in the order of
    /// `clocks`.
    ///
    /// # Errors
    /// Fails if a clock is listed twice.
    pub fn keys(&self, world: &World, clocks: &[(Node, Role)]) -> Result<Vec<Security>, KeyError> {
        let mut ring = KeyRing::default();
        let mut secrets = Vec::new();
        for one in self.secrets(world, clocks) {
            let secret = SecretKey::with_ports(self.suite, &one.octets, one.ports);
            secret.keep(Box::<MemoryLedger>::default());
            let member = RingMember {
                clock: one.clock,
                index: one.index,
                epoch: EPOCH,
                key: secret.public(),
                grandmaster: one.grandmaster,
            };
            ring.insert(member, &secret.prove())?;
            secrets.push(Arc::new(secret));
        }
        let ring = Arc::new(ring);
        let seconds = self.epoch.as_ns() / 1_000_000_000;
        let all = secrets.into_iter().zip(clocks).enumerate();
        let all = all.map(|(index, (secret, (node, _)))| Security {
            clock: PtpNode::identity_at(world, *node),
            index: member_index(index),
            secret,
            epoch: EPOCH,
            ring: Arc::clone(&ring),
            form: EntryForm::Full,
            policy: self.policy,
            limits: Limits::default(),
            watch: self.suite.is_aggregate(),
            secondary: false,
            bind_vid: false,
            first_sequence: (seconds.unsigned_abs() & 0xffff_ffff) << 16,
        });
        Ok(all.collect())
    }
}

/// Returns the index of a clock in the key file.
fn member_index(index: usize) -> u16 {
    u16::try_from(index).expect("a network has at most 65,536 clocks with keys")
}
