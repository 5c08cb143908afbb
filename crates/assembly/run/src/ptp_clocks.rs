//! PTP clocks of a simulated network: attached to nodes as the plan says, and their measurements
//! recorded.

use std::collections::{HashMap, HashSet};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::mpsc;
use std::thread::JoinHandle;

use timeloom_net::{Node, World};
use timeloom_ptp::security::{Security, VerificationFailure};
use timeloom_ptp::tamper::Tamper;
use timeloom_ptp::{PROFILES, Profile, RandomSource, SplitMix64};
use timeloom_ptp_io::keys::{ExportedClock, ExportedKeys};
use timeloom_ptp_net::{
    ClockEvent, EPOCH, NodeClockOptions, NodeOptions, PtpNode, Rogue, RogueAttack, Role,
    SigningConfig, VerificationPolicy,
};
use timeloom_scenario::{
    Host, Plan, Ptp, PtpAttack, PtpClock, PtpPolicy, PtpRogue, PtpSecurity, Simulated,
};
use timeloom_time::{Duration, Instant, Utc, Virtual};
use timeloom_wire::tlv::Suite;
use timeloom_wire::{ClockIdentity, TimeInterval};

use crate::error::RunError;
use crate::hosts::{oscillator_of, seed_of};
use crate::record::Note;

/// Running PTP clocks, and the thread that records their measurements.
pub(crate) struct PtpClocks {
    nodes: Vec<(String, Node)>,
    thread: Option<JoinHandle<()>>,
}

impl PtpClocks {
    /// Attaches the plan's clocks to the nodes of `world` that `is_here` selects. Clocks at other
    /// nodes belong to other engines. `start` is true time at virtual time zero, as hosts see it;
    /// the clocks start at the virtual instant `begins`. `real` lists the clocks of real programs.
    pub(crate) fn start(
        plan: &Plan,
        nodes: &[(String, Node)],
        real: &[RealClock],
        (world, is_here): (&mut World, impl Fn(Node) -> bool),
        (start, begins): (Instant<Utc>, Instant<Virtual>),
        note: impl Fn(&Note) + Send + 'static,
    ) -> Result<Self, RunError> {
        let here = || nodes.iter().filter(|(_, node)| is_here(*node)).cloned();
        let Some(network) = plan.network.as_ref().filter(|_| !nodes.is_empty()) else {
            return Ok(Self {
                nodes: Vec::new(),
                thread: None,
            });
        };
        let profile = profile_of(&network.ptp);
        let (told, all) = mpsc::channel::<(Arc<str>, ClockEvent)>();
        let roles = nodes
            .iter()
            .map(|(name, node)| (*node, network.clocks[name].role));
        // The keys of real clocks follow those of the model's clocks.
        let roles: Vec<_> = roles.chain(real.iter().map(|(_, clock)| *clock)).collect();
        let mut keys = keys_of(plan, &network.ptp, world, &roles, start)?.into_iter();
        let named = nodes.iter().map(|(name, node)| (name, *node));
        let named = named.chain(real.iter().map(|(name, (node, _))| (name, *node)));
        let names = named.map(|(name, node)| (PtpNode::identity_at(world, node), name.clone()));
        let names = Names(names.collect());
        for (name, node) in nodes {
            let mut options = options_of(plan, name, &network.clocks[name], profile, start);
            options.security = keys.next();
            options.begins = begins;
            if !is_here(*node) {
                continue;
            }
            if !PtpNode::attach(world, *node, &options) {
                return Err(RunError::Plan(format!("`{name}` cannot have a PTP clock")));
            }
            if let Some(clock) = PtpNode::at_mut(world, *node) {
                let (name, told): (Arc<str>, _) = (name.as_str().into(), told.clone());
                clock.observe(Box::new(move |event| {
                    // The recording thread ends after this one, unless its disk is full.
                    let _ = told.send((Arc::clone(&name), *event));
                }));
            }
        }
        let thread = std::thread::spawn(move || {
            let sample = |host: &str, at: Instant<Virtual>, name: &str, value: f64, unit: &str| {
                note(&Note::HostSample {
                    host: host.to_owned(),
                    at_ns: at.as_ns(),
                    name: name.to_owned(),
                    value_bits: value.to_bits(),
                    unit: unit.to_owned(),
                });
            };
            let mut said = HashSet::new();
            for (name, event) in all {
                match event {
                    ClockEvent::Measured(one, violations) => {
                        sample(&name, one.at, "ptp.offset", one.offset_ns * 1e-9, "s");
                        let ahead_s = one.ahead_ns as f64 * 1e-9;
                        sample(&name, one.at, "clock.offset", ahead_s, "s");
                        let violations = violations as f64;
                        sample(&name, one.at, "ptp.violations", violations, "1");
                    }
                    ClockEvent::Violation(one) => {
                        let count = one.count as f64;
                        sample(&name, one.at, "ptp.violations", count, "1");
                        if let Some(ahead_ns) = one.ahead_ns {
                            let ahead_s = ahead_ns as f64 * 1e-9;
                            sample(&name, one.at, "clock.offset", ahead_s, "s");
                        }
                        // Only the first of several equal violations of a clock becomes an event.
                        let what = names.say(&one.failure);
                        if said.insert((Arc::clone(&name), what.clone())) {
                            let sequence = one.failure.sequence;
                            let text = format!("{name} noticed, of Sync {sequence}: {what}");
                            note(&Note::Event {
                                at_ns: one.at.as_ns(),
                                source: name.to_string(),
                                kind: "violation".to_owned(),
                                text,
                            });
                        }
                    }
                }
            }
        });
        Ok(Self {
            nodes: here().collect(),
            thread: Some(thread),
        })
    }

    /// Returns name and node of each clock of this engine.
    pub(crate) fn nodes(&self) -> Vec<(String, Node)> {
        self.nodes.clone()
    }

    /// Waits until all measurements are written. The network must have ended.
    pub(crate) fn stop(&mut self) {
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// Names of the clocks, by their PTP clock identities.
struct Names(HashMap<ClockIdentity, String>);

impl Names {
    fn of(&self, clock: ClockIdentity) -> String {
        let name = self.0.get(&clock);
        name.map_or_else(|| clock.to_string(), Clone::clone)
    }

    /// Describes a security violation, and the path on which it happened, as far as it is known.
    fn say(&self, failure: &VerificationFailure) -> String {
        let before = self.of(failure.suspect.before);
        let place = match failure.suspect.after {
            Some(after) => format!("between {} and {before}", self.of(after)),
            None => format!("before {before}"),
        };
        format!("{}, {place}", failure.reason)
    }
}

/// Real clock among those of the model: the name of its host, its node and its role.
pub(crate) type RealClock = (String, (Node, Role));

/// Returns the hosts whose programs are clocks among those of the model.
pub(crate) fn real_clocks(plan: &Plan, simulated: &Simulated) -> Vec<RealClock> {
    let hosts = plan.system.hosts.iter();
    let clock = |(name, host): (&String, &Host)| {
        Some((name.clone(), (*simulated.nodes.get(name)?, host.ptp?)))
    };
    hosts.filter_map(clock).collect()
}

/// Writes the keys of the real clocks on the hosts of `part`, each into a directory that `make`
/// creates for its host. `plan` is the plan of the whole run.
pub(crate) fn export_keys(
    (plan, part): (&Plan, &Plan),
    simulated: &Simulated,
    start: Instant<Utc>,
    make: impl Fn(&str) -> Result<PathBuf, RunError>,
) -> Result<(), RunError> {
    let (real, world) = (real_clocks(plan, simulated), &simulated.world);
    let network = plan.network.as_ref().filter(|_| !real.is_empty());
    let Some((network, signing)) =
        network.and_then(|network| Some((network, signing_of(plan, &network.ptp, start)?)))
    else {
        return Ok(());
    };
    let of_model = simulated.clocks.iter();
    let of_model = of_model.map(|(name, node)| (name.clone(), (*node, network.clocks[name].role)));
    let clocks: Vec<RealClock> = of_model.chain(real.iter().cloned()).collect();
    let roles: Vec<_> = clocks.iter().map(|(_, clock)| *clock).collect();
    let secrets = signing.secrets(world, &roles).into_iter().zip(&clocks);
    let mut random = SplitMix64(seed_of(plan.seed, "network.ptp.authority"));
    let mut authority = [0; 32];
    for part in authority.chunks_exact_mut(8) {
        part.copy_from_slice(&random.next_u64().to_be_bytes());
    }
    let keys = ExportedKeys {
        suite: signing.suite,
        epoch: EPOCH,
        authority,
        clocks: secrets
            .map(|(secret, (name, _))| ExportedClock {
                name: name.clone(),
                clock: secret.clock,
                index: secret.index,
                octets: secret.octets,
                ports: secret.ports,
                grandmaster: secret.grandmaster,
            })
            .collect(),
    };
    let here = |own: &&ExportedClock| {
        let is_real = real.iter().any(|(name, _)| *name == own.name);
        is_real && part.system.hosts.contains_key(&own.name)
    };
    for own in keys.clocks.iter().filter(here) {
        let written = keys.write(&make(&own.name)?, own);
        written
            .map_err(|error| RunError::Start(format!("the PTP keys of {}: {error}", own.name)))?;
    }
    Ok(())
}

/// Returns the keys of all clocks, in the order of `clocks`; none if no clock signs.
fn keys_of(
    plan: &Plan,
    ptp: &Ptp,
    world: &World,
    clocks: &[(Node, Role)],
    epoch: Instant<Utc>,
) -> Result<Vec<Security>, RunError> {
    let Some(signing) = signing_of(plan, ptp, epoch) else {
        return Ok(Vec::new());
    };
    let keys = signing.keys(world, clocks);
    keys.map_err(|error| RunError::Plan(format!("keys for PTP clocks: {error}")))
}

/// Returns how clocks sign; `None` if they do not.
fn signing_of(plan: &Plan, ptp: &Ptp, epoch: Instant<Utc>) -> Option<SigningConfig> {
    let suite = match ptp.security {
        PtpSecurity::None => return None,
        PtpSecurity::Ed25519 => Suite::Ed25519,
        PtpSecurity::Bls => Suite::Bls,
        PtpSecurity::BlsOnce => Suite::BlsOnce,
    };
    let policy = match ptp.policy.unwrap_or_default() {
        PtpPolicy::Strict => VerificationPolicy::Strict,
        PtpPolicy::Monitor => VerificationPolicy::Monitor,
    };
    let seed = seed_of(plan.seed, "network.ptp.security");
    Some(SigningConfig {
        suite,
        policy,
        seed,
        epoch,
    })
}

fn rogue_of(rogue: PtpRogue) -> Rogue {
    let by = |usual: Duration| rogue.by.unwrap_or(usual);
    let bent = by(Duration::from_us(10));
    let attack = match rogue.attack {
        PtpAttack::Correction => {
            RogueAttack::Tamper(Tamper::Correction(TimeInterval::from_ns(bent.as_ns())))
        }
        PtpAttack::Origin => RogueAttack::Tamper(Tamper::Origin),
        PtpAttack::Strip => RogueAttack::Tamper(Tamper::Strip),
        PtpAttack::RemoveHop => RogueAttack::Tamper(Tamper::RemoveHop),
        PtpAttack::Epoch => RogueAttack::Tamper(Tamper::Epoch),
        PtpAttack::Replay => RogueAttack::Replay,
        PtpAttack::SpoofSync => RogueAttack::SpoofSync,
        PtpAttack::DelaySync => RogueAttack::DelaySync(by(Duration::from_ms(2))),
        PtpAttack::Lie => RogueAttack::Lie(bent),
    };
    Rogue {
        attack,
        from: Instant::ZERO + rogue.from,
    }
}

fn profile_of(ptp: &Ptp) -> Profile {
    let named = PROFILES
        .iter()
        .find(|(name, _)| *name == ptp.profile.name());
    let mut profile = named.expect("the file's names are these").1;
    let log = |interval: Option<Duration>| interval.and_then(Ptp::log_of);
    profile.domain = ptp.domain.unwrap_or(profile.domain);
    for (of, to) in [
        (&mut profile.log_sync_interval, log(ptp.sync_interval)),
        (&mut profile.log_delay_interval, log(ptp.delay_interval)),
        (
            &mut profile.log_announce_interval,
            log(ptp.announce_interval),
        ),
    ] {
        *of = to.unwrap_or(*of);
    }
    profile
}

fn options_of(
    plan: &Plan,
    name: &str,
    clock: &PtpClock,
    profile: Profile,
    start: Instant<Utc>,
) -> NodeOptions {
    let ptp = plan.network.as_ref().map(|network| network.ptp);
    let described = clock.clock.as_ref();
    NodeOptions {
        transport: ptp.unwrap_or_default().transport,
        clock: NodeClockOptions {
            oscillator: described.map(oscillator_of).unwrap_or_default(),
            seed: seed_of(plan.seed, name),
            epoch: start,
            offset: described.map_or(Duration::ZERO, |clock| clock.offset),
            resolution: clock.resolution,
        },
        address: clock.address.map(|interface| interface.address),
        rogue: clock.rogue.map(rogue_of),
        ..NodeOptions::new(clock.role, profile)
    }
}

/// Describes the activity of a clock for the final report; `None` if `node` has no clock.
pub(crate) fn tell(world: &World, name: &str, node: Node) -> Option<String> {
    let tally = PtpNode::at(world, node)?.tally();
    let mut text = if world.is_switch(node) {
        format!(
            "{name}: {} Syncs handed on, the longest stayed {:.0} ns",
            tally.relayed, tally.longest_residence_ns
        )
    } else {
        let state = tally
            .state
            .map_or_else(|| "listening".to_owned(), |state| state.to_string());
        let last = tally.last.map_or_else(String::new, |last| {
            format!(
                "; at the last its clock was {} ns ahead and it measured {:.0} ns",
                last.ahead_ns, last.offset_ns
            )
        });
        format!("{name}: {state}, {} Syncs measured{last}", tally.measured)
    };
    for (reason, count) in &tally.failures {
        text.push_str(&format!("; {count} violations: {reason}"));
    }
    if tally.tampered > 0 {
        text.push_str(&format!(
            "; as a rogue it changed {} messages",
            tally.tampered
        ));
    }
    for (reason, count) in &tally.dropped {
        text.push_str(&format!("; {count} dropped: {reason}"));
    }
    Some(text)
}
