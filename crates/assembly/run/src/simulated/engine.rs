//! One engine of a run's network. The same code runs in a thread of the run and in a process of the
//! engine.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use serde::{Deserialize, Serialize};
use timeloom_emulation::peering::datagram::Key;
use timeloom_emulation::peering::peer::PeerConfig;
use timeloom_emulation::peering::{Endpoint, Portal as PeeringPortal};
use timeloom_emulation::{
    CaptureProgressCallback, CaptureSink, Emulation, EmulationOptions, EmulationReport,
    FollowedClock, FrameArrivalCallback, GroupMember, PanicCallback, Portals, SampleCallback,
    Timing,
};
use timeloom_engine::Limit;
use timeloom_fabric::VirtualCubic;
use timeloom_guest::Compute;
use timeloom_net::{Node, Owner, World};
use timeloom_scenario::{Background, EngineMode, Engines, Parts, Plan, Simulated};
use timeloom_sys::clock::{tick, wall_now};
use timeloom_time::{Duration, Instant, Utc, Virtual};

use super::ending::Closing;
use super::{captures, engines};
use crate::error::RunError;
use crate::flow_stats::FlowStats;
use crate::network_signals::{self, NetworkObservation, View};
use crate::numbers::Numbers;
use crate::ptp_clocks::{self, PtpClocks};
use crate::record::Note;
use crate::servers;

/// Engine of a plan's network, before it is started.
#[derive(Clone, Copy)]
pub(super) struct Engine<'a> {
    pub(super) plan: &'a Plan,
    pub(super) simulated: &'a Simulated,
    pub(super) here: Owner,
}

/// Destinations of an engine's captured frames, samples, notes and failure.
pub(super) struct Outlets {
    pub(super) capture: Option<CaptureSink>,
    /// Receives the progress of the captures.
    pub(super) passed: Option<CaptureProgressCallback>,
    pub(super) sample: SampleCallback,
    pub(super) note: Box<dyn Fn(&Note) + Send>,
    pub(super) died: PanicCallback,
    /// CUBIC of the hosts' kernels, which follows the engine's time.
    pub(super) cubic: Option<Arc<VirtualCubic>>,
}

/// Clock that an engine follows, and its relation to civil time.
pub(super) struct Pacing {
    pub(super) clock: Box<dyn FollowedClock>,
    /// Membership in the group of engines whose next event must be known before time skips or is
    /// granted.
    pub(super) member: Option<GroupMember>,
    /// UTC at virtual time zero.
    pub(super) civil_start: Instant<Utc>,
}

/// Connections to the other engines.
pub(super) struct EngineLinks {
    pub(super) ends: Vec<(Owner, Endpoint, PeerConfig)>,
    pub(super) key: Key,
    /// Number of this start; higher for each later process of the same engine.
    pub(super) epoch: u64,
    /// Maximum wait for the other engines to connect; `None` waits without limit. `absent` lists
    /// the engines that are away.
    pub(super) patience: Option<Duration>,
    pub(super) absent: Vec<Owner>,
    /// Flag that ends the wait for the other engines when it is set.
    pub(super) give_up: Option<Arc<AtomicBool>>,
    /// True if the other engines are already running when this one joins.
    pub(super) late: bool,
}

impl Engine<'_> {
    /// Returns true if the node belongs to this engine.
    pub(super) fn owns(&self, node: Node) -> bool {
        let parts = self.simulated.parts.as_ref();
        parts.is_none_or(|parts| parts.cut().owners()[node.0 as usize] == self.here)
    }

    /// Returns the name of the engine; `None` if it is the only one.
    pub(super) fn name(&self) -> Option<&str> {
        let parts = self.simulated.parts.as_ref();
        parts.map(|parts| &*parts.names[usize::from(self.here)])
    }

    /// Starts the engine; the network then runs by the clock of `pacing`.
    pub(super) fn start(
        &self,
        portals: Portals,
        engine_links: Option<EngineLinks>,
        pacing: Pacing,
        outlets: Outlets,
    ) -> Result<Running, RunError> {
        let failed = |error| RunError::Start(format!("the simulated network: {error}"));
        let (plan, simulated) = (self.plan, self.simulated);
        let mut world = self.part();
        let is_late = engine_links
            .as_ref()
            .is_some_and(|engine_links| engine_links.late);
        let begins = match is_late {
            true => present(&*pacing.clock),
            false => Instant::ZERO,
        };
        let clocks = PtpClocks::start(
            plan,
            &simulated.clocks,
            &ptp_clocks::real_clocks(plan, simulated),
            (&mut world, |node| self.owns(node)),
            (pacing.civil_start, begins),
            outlets.note,
        )?;
        let mut servers = simulated.hosts.clone();
        servers.retain(|(_, node)| self.owns(*node));
        servers::start(plan, &servers, &mut world)?;
        let mut options = EmulationOptions {
            watch: captures::ports(plan, simulated),
            capture: outlets.capture,
            passed: outlets.passed,
            // If skipping or grants move time, the processor may sleep until they do.
            awake: pacing.member.is_none(),
            group: pacing.member,
            sample: Some((network_signals::every(plan), outlets.sample)),
            died: Some(outlets.died),
            ..EmulationOptions::default()
        };
        options.arriving = outlets
            .cubic
            .map(|cubic| -> FrameArrivalCallback { Box::new(move |now| cubic.set_time(now)) });
        if plan.time.skips() {
            // Time does not skip before this thread has worked, so its wake-ups must not be
            // delayed.
            options.moderation = Duration::ZERO;
            options.tcp_timers = Some(tick());
            options.reproduces = plan.time.compute == Compute::None;
        }
        if let Some(name) = self.name() {
            options.name = format!("engine {name}");
        }
        if let Some(engine_links) = engine_links {
            options.patience = engine_links.patience;
            options.absent.clone_from(&engine_links.absent);
            options.give_up.clone_from(&engine_links.give_up);
            options.late = engine_links.late;
            options.peers = self.peers(&mut world, engine_links);
            options.moderation = self.moderation(options.moderation);
        }
        let timing = Timing::Follow(pacing.clock);
        let emulation = Emulation::start(world, portals, timing, options).map_err(failed)?;
        Ok(Running {
            emulation,
            clocks,
            servers,
            traffic: simulated.traffic.clone(),
            parts: simulated.parts.clone(),
            here: self.here,
        })
    }

    /// Returns the scenario's settings of the engines.
    pub(super) fn settings(&self) -> Option<&Engines> {
        self.plan.network.as_ref()?.engines.as_ref()
    }

    /// Returns the part of the network whose nodes belong to this engine.
    fn part(&self) -> World {
        let (world, here) = (&self.simulated.world, self.here);
        match &self.simulated.parts {
            Some(parts) => parts.cut().part(world, here),
            None => world.part(&vec![here; world.nodes()].into(), here),
        }
    }

    /// Creates the portal through which `world` exchanges packets with the other engines.
    fn peers(&self, world: &mut World, engine_links: EngineLinks) -> Option<PeeringPortal> {
        let settings = self.settings()?;
        let cut = self.simulated.parts.as_ref()?.cut().clone();
        let limit = Limit {
            late_after: settings.late_after,
            late_ppm: settings.late_ppm(),
            ..Limit::default()
        };
        let mut portal = PeeringPortal::new(
            world,
            cut,
            self.here,
            engine_links.key,
            engine_links.epoch,
            limit,
        );
        if settings.mode == EngineMode::Exact {
            portal.wait_for_others();
        }
        for (there, end, config) in engine_links.ends {
            portal.add(world, there, end, config);
        }
        Some(portal)
    }

    fn moderation(&self, usual: Duration) -> Duration {
        let mode = self.settings().map(|settings| settings.mode);
        let several = self.simulated.parts.as_ref().zip(mode);
        several.map_or(usual, |(parts, mode)| {
            engines::moderation(usual, parts, mode, self.plan.time.dilation)
        })
    }
}

/// Returns the virtual time that a clock shows now.
fn present(clock: &dyn FollowedClock) -> Instant<Virtual> {
    let (map, stop) = clock.map_and_stop();
    map.at(wall_now()).min(stop)
}

/// Engine that is running.
pub(super) struct Running {
    pub(super) emulation: Emulation,
    clocks: PtpClocks,
    servers: Vec<(String, Node)>,
    traffic: Vec<Background>,
    parts: Option<Parts>,
    here: Owner,
}

/// Final report of an engine.
#[derive(Default, Serialize, Deserialize)]
pub(super) struct EngineReport {
    /// Statistics of the flows, as counted by this engine, in the form of [`Numbers`]. Empty if the
    /// engine has died.
    flows: Vec<u64>,
    /// Activity of the engine's PTP clocks and servers: kind and text.
    pub(super) told: Vec<(String, String)>,
    /// Final report of the engine's network; `None` if the engine has died.
    pub(super) closing: Option<Closing>,
    /// State at the instant at which the engine left; `None` if it did not leave.
    pub(super) leaving: Option<Leaving>,
}

/// State of an engine when it leaves a run in progress.
#[derive(Serialize, Deserialize)]
pub(super) struct Leaving {
    /// Virtual instant at which the engine left, in ns.
    at_ns: i64,
    /// Counters of the engine at that instant, in the form of [`Numbers`].
    seen: Vec<u64>,
}

impl EngineReport {
    /// Returns the report of an engine on another node, of which only the flows are known.
    pub(super) fn of_flows(flows: Vec<u64>) -> Self {
        Self {
            flows,
            ..Self::default()
        }
    }

    /// Returns the statistics of the flows, in the form of [`Numbers`].
    pub(super) fn flow_numbers(&self) -> &[u64] {
        &self.flows
    }

    /// Returns the virtual instant at which the engine left, and its counters at that instant;
    /// `None` if the engine did not leave.
    pub(super) fn left(&self) -> Option<(Instant<Virtual>, NetworkObservation)> {
        let leaving = self.leaving.as_ref()?;
        let seen = Numbers::take(&mut leaving.seen.iter().copied())?;
        Some((Instant::from_ns(leaving.at_ns), seen))
    }

    /// Returns the statistics of the first `count` flows.
    pub(super) fn flows(&self, count: usize) -> Vec<FlowStats> {
        let mut row = self.flows.iter().copied();
        (0..count).map_while(|_| Numbers::take(&mut row)).collect()
    }
}

impl Running {
    /// Ends the engine at the end of the run.
    pub(super) fn finish(self) -> EngineReport {
        self.end_with(|_, _| None)
    }

    /// Ends this engine while the others continue. `view` selects the counters that it reports.
    pub(super) fn leave(self, view: &View) -> EngineReport {
        self.emulation.leave();
        self.end_with(|world, report| {
            let mut seen = Vec::new();
            view.look(report.now, world, &report.adjacencies)
                .put(&mut seen);
            Some(Leaving {
                at_ns: report.now.as_ns(),
                seen,
            })
        })
    }

    fn end_with(
        mut self,
        leave: impl FnOnce(&mut World, &EmulationReport) -> Option<Leaving>,
    ) -> EngineReport {
        let (clocks, servers, parts) = (self.clocks.nodes(), self.servers, self.parts);
        let (traffic, here) = (self.traffic, self.here);
        let ended = self.emulation.stop_with(|engine, report| {
            let world = &mut engine.model;
            let mut flows = Vec::new();
            for how in traffic {
                FlowStats::of(world, how).put(&mut flows);
            }
            let clocks = clocks.iter().filter_map(|(name, node)| {
                Some(("ptp".to_owned(), ptp_clocks::tell(world, name, *node)?))
            });
            let servers = servers.iter().filter_map(|(name, node)| {
                Some(("served".to_owned(), servers::tell(world, name, *node)?))
            });
            EngineReport {
                flows,
                told: clocks.chain(servers).collect(),
                closing: Some(Closing::of(report, parts.as_ref(), here)),
                leaving: leave(world, report),
            }
        });
        self.clocks.stop();
        ended.map(|(_, ended)| ended).unwrap_or_default()
    }
}
