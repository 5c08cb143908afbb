//! The PTP clocks of a simulated network: put where the plan says, recorded as
//! they measure.

use std::sync::Arc;
use std::sync::mpsc;
use std::thread::JoinHandle;

use timeloom_net::{Node, World};
use timeloom_ptp::{PROFILES, Profile};
use timeloom_ptp_net::{ClockOptions, Measured, NodeOptions, PtpNode, Role, Transport};
use timeloom_scenario::{Plan, Ptp, PtpClock, PtpRole, PtpTransport, Simulated};
use timeloom_time::{Duration, Instant, Utc};

use crate::error::RunError;
use crate::hosts::{crystal_of, seed_of};
use crate::record::Scribe;

/// Clocks at work, and who writes down what they measure.
pub(crate) struct PtpClocks {
    nodes: Vec<(String, Node)>,
    thread: Option<JoinHandle<()>>,
}

impl PtpClocks {
    /// Lets the plan's clocks live in the network. True time at virtual time zero
    /// is `start`, as hosts see it.
    pub(crate) fn start(
        plan: &Plan,
        simulated: &mut Simulated,
        start: Instant<Utc>,
        scribe: &Scribe,
    ) -> Result<Self, RunError> {
        let nodes = std::mem::take(&mut simulated.clocks);
        let Some(network) = plan.network.as_ref().filter(|_| !nodes.is_empty()) else {
            return Ok(Self {
                nodes,
                thread: None,
            });
        };
        let profile = profile_of(&network.ptp);
        let world = &mut simulated.world;
        let (measured, all) = mpsc::channel::<(Arc<str>, Measured)>();
        for (name, node) in &nodes {
            let options = options_of(plan, name, &network.clocks[name], profile, start);
            if !PtpNode::lodge(world, *node, &options) {
                return Err(RunError::Plan(format!("`{name}` is no place for a clock")));
            }
            if let (Role::Slave { .. }, Some(clock)) = (options.role, PtpNode::at_mut(world, *node))
            {
                let (name, measured): (Arc<str>, _) = (name.as_str().into(), measured.clone());
                clock.observe(Box::new(move |one| {
                    // The recorder ends after us, unless its disk is full.
                    let _ = measured.send((Arc::clone(&name), *one));
                }));
            }
        }
        let scribe = scribe.clone();
        let thread = std::thread::spawn(move || {
            for (name, one) in all {
                scribe.host_sample(&name, one.at, "ptp.offset", one.offset_ns * 1e-9, "s");
                let ahead_s = one.ahead_ns as f64 * 1e-9;
                scribe.host_sample(&name, one.at, "clock.offset", ahead_s, "s");
            }
        });
        Ok(Self {
            nodes,
            thread: Some(thread),
        })
    }

    /// Where they are.
    pub(crate) fn nodes(&self) -> Vec<(String, Node)> {
        self.nodes.clone()
    }

    /// Waits until everything is written; the network has ended.
    pub(crate) fn stop(&mut self) {
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
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
    let role = match clock.role {
        PtpRole::Transparent => Role::Transparent,
        PtpRole::Grandmaster => Role::Grandmaster,
        PtpRole::Slave => Role::Slave { steers: true },
        PtpRole::Monitor => Role::Slave { steers: false },
    };
    let ptp = plan.network.as_ref().map(|network| network.ptp);
    let described = clock.clock.as_ref();
    NodeOptions {
        transport: match ptp.unwrap_or_default().transport {
            PtpTransport::L2 => Transport::Layer2,
            PtpTransport::Udp4 => Transport::Udp4,
        },
        clock: ClockOptions {
            crystal: described.map(crystal_of).unwrap_or_default(),
            seed: seed_of(plan.seed, name),
            epoch: start,
            offset: described.map_or(Duration::ZERO, |clock| clock.offset),
            resolution: clock.resolution,
        },
        address: clock.address.map(|interface| interface.address),
        ..NodeOptions::new(role, profile)
    }
}

/// What a clock has done, in words.
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
            .map_or_else(|| "Listening".to_owned(), |state| format!("{state:?}"));
        let last = tally.last.map_or_else(String::new, |last| {
            format!(
                "; at the last its clock was {} ns ahead and it measured {:.0} ns",
                last.ahead_ns, last.offset_ns
            )
        });
        format!("{name}: {state}, {} Syncs measured{last}", tally.measured)
    };
    for (reason, count) in &tally.dropped {
        text.push_str(&format!("; {count} dropped: {reason}"));
    }
    Some(text)
}
