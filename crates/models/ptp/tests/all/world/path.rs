//! A path of a grandmaster, transparent clocks in a row, and a slave.

use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;

use timeloom_ptp::security::VerificationFailure;
use timeloom_ptp::{
    ClockReport, DelayMechanism, DropReason, OrdinaryConfig, Profile, PtpPacket, RandomSource,
    TransparentConfig,
};
use timeloom_wire::tlv::{EntryForm, Suite};
use timeloom_wire::{Header, MessageType};

use super::World;
use super::clock::HardwareClock;
use super::keys::{identity, ring, security};
use super::link::Link;
use super::node::Node;

/// Settings of a path.
#[derive(Clone)]
pub struct Path {
    pub seed: u64,
    pub hops: usize,
    pub profile: Profile,
    pub link: Link,
    pub suite: Option<(Suite, EntryForm)>,
    /// True if the slave adjusts its clock.
    pub steer: bool,
    /// Transparent clock that signs any input; `None` for none.
    pub rogue: Option<usize>,
    /// Nodes without keys; then, the policy of all other nodes.
    pub unaware: Vec<usize>,
    pub policy: timeloom_ptp::security::VerificationPolicy,
    /// True if clocks send statements over a second network.
    pub secondary: bool,
    /// True if the transparent clocks are end-to-end ones, whatever the other clocks use.
    pub end_to_end_hops: bool,
    /// True if the grandmaster signs the VLAN identifier.
    pub bind_vid: bool,
    /// True if the slave's clock shows civil time while the grandmaster sends TAI.
    pub civil_slave: bool,
}

pub const GRANDMASTER: usize = 0;

impl Path {
    /// Returns a path with peer delay, 8 Syncs per second, and 500 ns of cable per link.
    pub fn new(seed: u64, hops: usize) -> Self {
        let profile = Profile {
            log_sync_interval: -3,
            log_delay_interval: -2,
            ..Profile::POWER_UTILITY
        };
        Self {
            seed,
            hops,
            profile,
            link: Link::new(500),
            suite: None,
            steer: true,
            rogue: None,
            unaware: Vec::new(),
            policy: timeloom_ptp::security::VerificationPolicy::Strict,
            secondary: false,
            civil_slave: false,
            end_to_end_hops: false,
            bind_vid: false,
        }
    }

    pub fn signed(mut self, suite: Suite, form: EntryForm) -> Self {
        self.suite = Some((suite, form));
        self
    }

    pub fn slave(&self) -> usize {
        self.hops + 1
    }

    /// Builds the nodes 0 (grandmaster), 1 … hops, and hops + 1 (slave). Port 1 of a transparent
    /// clock is upstream and port 2 downstream.
    pub fn build(&self) -> World {
        let mut world = World::new(self.seed.wrapping_add(shift()));
        let keys = self.suite.map(|(suite, form)| {
            (
                suite,
                form,
                Arc::new(ring(suite, self.hops + 2, &self.unaware)),
            )
        });
        let security_of = |node: usize| {
            let (suite, form, ring) = keys.as_ref().filter(|_| !self.unaware.contains(&node))?;
            let mut security = security(*suite, *form, node, ring);
            security.watch &= self.rogue != Some(node);
            security.policy = self.policy;
            security.secondary = self.secondary;
            security.bind_vid = self.bind_vid;
            Some(security)
        };
        let mut secrets = Vec::new();
        for node in 0..self.hops + 2 {
            let now = world.local();
            let drift = (world.random() % 40_000) as f64 - 20_000.0;
            let offset = (world.random() % 3_000_000_000) as i64;
            let security = security_of(node);
            secrets.extend(security.as_ref().map(|s| (node, s.secret.clone())));
            if node == GRANDMASTER || node == self.slave() {
                let mut config = OrdinaryConfig::new(identity(node), self.profile);
                config.slave_only = node == self.slave();
                config.free_running = !self.steer;
                config.ptp_timescale = node == GRANDMASTER || !self.civil_slave;
                config.security = security;
                let clock = if node == GRANDMASTER {
                    HardwareClock::new(1_700_000_000_000_000_000, 0.0)
                } else {
                    HardwareClock::new(1_700_000_000_000_000_000 + offset, drift)
                };
                world.add(Node::ordinary(config, now), clock);
            } else {
                let mut profile = self.profile;
                if self.end_to_end_hops {
                    profile.delay = DelayMechanism::EndToEnd;
                }
                let mut config = TransparentConfig::new(identity(node), 2, profile);
                config.security = security;
                world.add(
                    Node::transparent(config, now),
                    HardwareClock::new(offset, drift),
                );
            }
        }
        world.secrets = secrets.into_iter().collect();
        for node in 0..=self.hops {
            let out_port = if node == GRANDMASTER { 1 } else { 2 };
            world.connect((node, out_port), (node + 1, 1), self.link.clone());
        }
        world
    }
}

/// Returns every violation that was noticed, with the node that noticed it.
pub fn failures(world: &World) -> Vec<(usize, VerificationFailure)> {
    let all = world
        .reports
        .iter()
        .filter_map(|(_, node, report)| match report {
            ClockReport::Failure { failure, .. } => Some((*node, *failure)),
            _ => None,
        });
    all.collect()
}

/// Runs the world for ten seconds, in which no violation may occur. Returns the last message of
/// `kind` that arrived at `node`.
pub fn template(world: &mut World, node: usize, kind: MessageType) -> PtpPacket {
    let last = Rc::new(RefCell::new(None));
    let log = last.clone();
    world.attack(Box::new(move |flight| {
        let (header, _) = Header::parse(&flight.packet.bytes).expect("a message");
        if flight.to == (node, 1) && header.message_type == kind {
            *log.borrow_mut() = Some(flight.packet.clone());
        }
        vec![flight]
    }));
    world.run_for(10.0);
    world.attack(Box::new(|flight| vec![flight]));
    assert_eq!(failures(world), []);
    let packet = last.borrow().clone();
    packet.expect("such a message came by")
}

/// Returns a copy of the packet with another `sequenceId`.
pub fn renumbered(packet: &PtpPacket, sequence: u16) -> PtpPacket {
    let mut packet = packet.clone();
    packet.bytes[30..32].copy_from_slice(&sequence.to_be_bytes());
    packet
}

/// Returns a Sync to which the Follow_Up belongs.
pub fn sync_of(follow_up: &PtpPacket) -> PtpPacket {
    let mut sync = follow_up.clone();
    sync.bytes.truncate(44);
    sync.bytes[0] &= 0xf0;
    sync.bytes[2..4].copy_from_slice(&44u16.to_be_bytes());
    sync.bytes[6] |= 2;
    sync.bytes[8..16].fill(0);
    sync
}

/// Returns the number of packets that `node` dropped for `reason`.
pub fn drops(world: &World, node: usize, reason: DropReason) -> usize {
    let of_node = world.reports.iter().filter(|(_, of, _)| *of == node);
    of_node
        .filter(|(.., r)| matches!(r, ClockReport::Dropped { reason: of, .. } if *of == reason))
        .count()
}

/// Returns the offsets that a slave reported, in ns, each with true if it was authenticated.
pub fn offsets(world: &World, node: usize) -> Vec<(f64, bool)> {
    let of_node = world.reports.iter().filter(|(_, of, _)| *of == node);
    of_node
        .filter_map(|(_, _, report)| match report {
            ClockReport::Offset {
                offset,
                authenticated,
                ..
            } => Some((offset.as_ns_f64(), *authenticated)),
            _ => None,
        })
        .collect()
}

/// Returns the mean and the standard deviation.
pub fn mean_and_deviation(values: &[f64]) -> (f64, f64) {
    let mean = values.iter().sum::<f64>() / values.len() as f64;
    let variance = values.iter().map(|v| (v - mean).powi(2)).sum::<f64>() / values.len() as f64;
    (mean, variance.sqrt())
}

/// Returns a separate generator for the random decisions of the test itself.
pub fn chance(seed: u64) -> impl RandomSource {
    timeloom_ptp::SplitMix64(seed ^ 0xdead_beef)
}

/// Returns the offset that is added to all seeds, from `TIMELOOM_SEED`.
fn shift() -> u64 {
    let set = std::env::var("TIMELOOM_SEED").ok();
    set.map_or(0, |text| {
        text.parse::<u64>().expect("TIMELOOM_SEED is a number") * 1_000_003
    })
}
