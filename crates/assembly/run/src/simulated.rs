//! A run's network as a model: portals at the stations, the session's clock, captures, in one
//! engine or in several.

mod captures;
mod ending;
mod engines;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;

use timeloom_fabric::Fabric;
use timeloom_guest::Clock;
use timeloom_net::{Node, Owner, World};
use timeloom_portal::{
    Address, Arrive, Emulation, Follow, Options, PacketOptions, PacketPort, Portals, Tap, Timing,
};
use timeloom_results::{NodeKind, RunDirectory, Topology};
use timeloom_scenario::{Background, Fault, Mode, NETWORK, Parts, Plan, Simulated};
use timeloom_time::{ClockMap, Duration, Instant, Utc, Virtual, Wall};

use crate::error::RunError;
use crate::flow_stats::FlowStats;
use crate::network;
use crate::network_signals;
use crate::ptp_clocks::{self, PtpClocks};
use crate::record::Scribe;
use crate::servers;
use crate::verdict::Reporter;
use captures::Captures;
use engines::Lines;

/// A simulated network that runs.
pub(crate) struct Network {
    /// One for each engine. Ended before the captures.
    emulations: Vec<Emulation>,
    captures: Vec<JoinHandle<()>>,
    signals: JoinHandle<()>,
    /// By engine.
    residents: Vec<Residents>,
    traffic: Vec<Flow>,
    parts: Option<Parts>,
    idle: Arc<AtomicBool>,
}

/// Who lives in an engine's part and has something to say at the end.
struct Residents {
    clocks: PtpClocks,
    servers: Vec<(String, Node)>,
}

/// A flow, and which engines have its ends.
struct Flow {
    name: String,
    how: Background,
    ends: [Owner; 2],
}

/// The session's clock, for an emulation that follows it.
#[derive(Clone)]
struct SessionClock {
    clock: Arc<Clock>,
    idle: Arc<AtomicBool>,
    /// Whether somebody has to know what comes next: who skips, or who grants.
    announces: bool,
}

impl Follow for SessionClock {
    fn map(&self) -> ClockMap<Wall, Virtual> {
        self.clock.map()
    }

    fn map_and_stop(&self) -> (ClockMap<Wall, Virtual>, Instant<Virtual>) {
        self.clock.map_and_stop()
    }

    fn asleep(&self, next: Option<Instant<Virtual>>) {
        if self.announces {
            self.clock.announce(next);
            self.idle.store(true, Ordering::SeqCst);
        }
    }

    fn awake(&self) {
        self.idle.store(false, Ordering::SeqCst);
    }
}

/// What a network is started with.
pub(crate) struct Surroundings<'a> {
    pub(crate) fabric: &'a Fabric,
    pub(crate) directory: &'a RunDirectory,
    pub(crate) clock: &'a Arc<Clock>,
    pub(crate) civil_start: Instant<Utc>,
    pub(crate) scribe: &'a Scribe,
    pub(crate) reporter: &'a Reporter,
}

impl Network {
    /// Joins every station of the fabric to the plan's simulated network;
    /// `None` where it has none.
    pub(crate) fn start(plan: &Plan, around: &Surroundings<'_>) -> Result<Option<Self>, RunError> {
        let Some(simulated) = built(plan.simulated())? else {
            return Ok(None);
        };
        let failed = |error| RunError::Start(format!("the simulated network: {error}"));
        let scribe = around.scribe;
        let captures = Captures::start(
            plan,
            &simulated,
            around.directory,
            around.civil_start,
            scribe,
        )?;
        let (signals, topology) = network_signals::start(plan, &simulated, scribe);
        around.directory.write_topology(&topology)?;
        scribe.event("local", NETWORK, "topology", &counted(&topology));
        let traffic = flows(plan, &simulated);
        let parts = simulated.parts.clone();
        let laid = |error| RunError::Start(format!("a line between two engines: {error}"));
        let mut lines = match &parts {
            Some(parts) => Some(Lines::lay(parts).map_err(laid)?),
            None => None,
        };
        let settings = plan.network.as_ref().and_then(|it| it.engines.as_ref());
        let idle = Arc::new(AtomicBool::new(false));
        let skips = plan.time.skips();
        let follow = SessionClock {
            clock: Arc::clone(around.clock),
            idle: Arc::clone(&idle),
            announces: skips || plan.time.mode == Mode::Stepped,
        };
        let mut network = Self {
            emulations: Vec::new(),
            captures: Vec::new(),
            signals: signals.writer,
            residents: Vec::new(),
            traffic,
            parts,
            idle,
        };
        for (here, look) in (0..).zip(signals.looks) {
            let portals = network.portals(plan, around.fabric, &simulated, here)?;
            let mut world = part(&simulated, here);
            network.settle(plan, &simulated, (&mut world, here), around)?;
            let mut options = Options {
                watch: captures.ports(),
                capture: captures.of_engine(),
                // Where others say when time goes on, a processor may doze meanwhile.
                awake: !follow.announces,
                sample: Some((signals.every, look)),
                ..Options::default()
            };
            if skips {
                // Skipping waits for this thread, which had better not doze.
                options.moderation = Duration::ZERO;
            }
            let name = network
                .parts
                .as_ref()
                .map(|parts| &*parts.names[usize::from(here)]);
            if let Some(name) = name {
                options.name = format!("engine {name}");
            }
            options.died = Some(engines::died(settings, name, scribe, around.reporter));
            let several = network.parts.as_ref().zip(settings).zip(lines.as_mut());
            if let Some(((parts, settings), lines)) = several {
                let peers = lines.portal(&mut world, parts, settings, here);
                let usual = options.moderation;
                let (mode, dilation) = (settings.mode, plan.time.dilation);
                options.moderation = engines::moderation(usual, parts, mode, dilation);
                options.peers = Some(peers);
            }
            let timing = Timing::Follow(Box::new(follow.clone()));
            let emulation = Emulation::start(world, portals, timing, options).map_err(failed)?;
            around.clock.on_change(emulation.waker());
            network.emulations.push(emulation);
        }
        network.captures = captures.threads;
        Ok(Some(network))
    }

    /// Whether engine `here` has a node.
    fn owns(&self, here: Owner, node: Node) -> bool {
        let parts = self.parts.as_ref();
        parts.is_none_or(|parts| parts.cut().owners()[node.0 as usize] == here)
    }

    /// The portals of the stations that engine `here` has.
    fn portals(
        &self,
        plan: &Plan,
        fabric: &Fabric,
        simulated: &Simulated,
        here: Owner,
    ) -> Result<Portals, RunError> {
        let failed = |error| RunError::Start(format!("the simulated network: {error}"));
        let mut portals = Portals::new();
        let stations = plan.system.hosts.keys().chain(plan.system.devices.keys());
        for name in stations.filter(|name| !plan.is_real(name)) {
            let node = simulated.nodes[name];
            if !self.owns(here, node) {
                continue;
            }
            let Some(address) = address(simulated, name) else {
                continue; // a single host needs no network
            };
            let station = fabric
                .station(name)
                .expect("every host of a checked plan is a station");
            let tap = Tap::create(station, "eth0", &address).map_err(failed)?;
            let port = simulated.world.port_of(node).expect("it has an address");
            let mtu = simulated.world.mtu(port);
            if mtu < u16::MAX {
                tap.set_mtu(mtu).map_err(failed)?;
            }
            portals
                .join(node, name, Box::new(tap), Default::default())
                .map_err(failed)?;
        }
        for (index, node) in &simulated.uplinks {
            if !self.owns(here, *node) {
                continue;
            }
            let name = network::uplink(*index);
            let station = fabric.station(&name).expect("the fabric was told of it");
            let port = PacketPort::open(station, "eth0", PacketOptions::default());
            let port = Box::new(port.map_err(failed)?);
            portals
                .join(*node, &name, port, Default::default())
                .map_err(failed)?;
        }
        Ok(portals)
    }

    /// Lets the clocks and servers that engine `here` has live in its world.
    fn settle(
        &mut self,
        plan: &Plan,
        simulated: &Simulated,
        (world, here): (&mut World, Owner),
        around: &Surroundings<'_>,
    ) -> Result<(), RunError> {
        let is_here = |node| self.owns(here, node);
        let (start, scribe) = (around.civil_start, around.scribe);
        let place = (&mut *world, is_here);
        let clocks = PtpClocks::start(plan, &simulated.clocks, place, start, scribe)?;
        let mut servers = simulated.hosts.clone();
        servers.retain(|(_, node)| self.owns(here, *node));
        servers::start(plan, &servers, world)?;
        self.residents.push(Residents { clocks, servers });
        Ok(())
    }

    /// Whether nothing happens in it before what it has announced.
    pub(crate) fn quiet(&self) -> Arc<AtomicBool> {
        Arc::clone(&self.idle)
    }

    /// What lets it go ahead of a clock that stands; see [`Emulation::ahead`].
    pub(crate) fn ahead(
        &self,
    ) -> Option<impl Fn(Instant<Virtual>, Arrive) -> bool + Send + Sync + use<>> {
        self.emulations.first().map(Emulation::ahead)
    }

    /// Ends it; what is to be said about it goes to the scribe, and what makes
    /// the results doubtful comes back.
    pub(crate) fn stop(mut self, scribe: &Scribe) -> Vec<String> {
        let residents = std::mem::take(&mut self.residents);
        let mut flows: Vec<Vec<FlowStats>> = Vec::new();
        for (emulation, residents) in self.emulations.iter().zip(&residents) {
            let clocks = residents.clocks.nodes();
            let servers = residents.servers.clone();
            let traffic: Vec<Background> = self.traffic.iter().map(|flow| flow.how).collect();
            let told = emulation.with(move |engine| {
                let world = &engine.model;
                let flows = traffic.iter().map(|how| FlowStats::of(world, *how));
                let clocks = clocks.iter().filter_map(|(name, node)| {
                    Some(("ptp", ptp_clocks::tell(world, name, *node)?))
                });
                let servers = servers.iter().filter_map(|(name, node)| {
                    Some(("served", servers::tell(world, name, *node)?))
                });
                (flows.collect(), clocks.chain(servers).collect::<Vec<_>>())
            });
            // An engine that has died tells nothing.
            let (stats, told) = told.unwrap_or_default();
            flows.push(stats);
            for (kind, text) in told {
                scribe.event("local", "network", kind, &text);
            }
        }
        for (place, flow) in self.traffic.iter().enumerate() {
            let [from, to] = flow.ends.map(|end| flows[usize::from(end)].get(place));
            if let (Some(from), Some(to)) = (from, to) {
                let stats = FlowStats::joined(*from, *to);
                scribe.event("local", "network", "traffic", &stats.tell(&flow.name));
            }
        }
        let emulations = self.emulations.drain(..);
        let reports: Vec<_> = emulations.map(Emulation::stop).collect();
        for mut residents in residents {
            residents.clocks.stop();
        }
        for thread in self.captures.drain(..) {
            let _ = thread.join();
        }
        let _ = self.signals.join();
        ending::doubts(&reports, self.parts.as_ref(), scribe)
    }
}

/// What engine `here` has of a network.
fn part(simulated: &Simulated, here: Owner) -> World {
    let world = &simulated.world;
    match &simulated.parts {
        Some(parts) => parts.cut().part(world, here),
        None => world.part(&vec![here; world.nodes()].into(), here),
    }
}

/// A network, if the plan has one.
fn built(made: Option<Result<Simulated, Fault>>) -> Result<Option<Simulated>, RunError> {
    let wrong =
        |fault: Fault| RunError::Plan(format!("{}: {}", fault.path.join("."), fault.message));
    made.transpose().map_err(wrong)
}

fn flows(plan: &Plan, simulated: &Simulated) -> Vec<Flow> {
    let owner = |node: Node| {
        let parts = simulated.parts.as_ref();
        parts.map_or(0, |parts| parts.cut().owners()[node.0 as usize])
    };
    let traffic = plan.network.as_ref().map_or(&[][..], |n| &n.traffic);
    let traffic = traffic.iter().zip(&simulated.traffic);
    traffic
        .map(|(what, how)| Flow {
            name: format!("{} to {}", what.from, what.to),
            how: *how,
            ends: how.ends(&simulated.world).map(owner),
        })
        .collect()
}

fn address(simulated: &Simulated, name: &str) -> Option<Address> {
    let (world, node) = (&simulated.world, simulated.nodes[name]);
    let port = world.port_of(node)?;
    Some(Address {
        address: world.address(port),
        prefix: world.prefix(port),
        mac: world.mac(port),
        gateway: world.gateway(node),
    })
}

fn counted(topology: &Topology) -> String {
    let nodes = |kind| {
        topology
            .nodes
            .iter()
            .filter(|node| node.kind == kind)
            .count()
    };
    format!(
        "{} real and {} simulated hosts, {} switches, {} routers, {} links, {} simulated flows",
        nodes(NodeKind::Real),
        nodes(NodeKind::Host),
        nodes(NodeKind::Switch),
        nodes(NodeKind::Router),
        topology.links.len(),
        topology.flows.len()
    )
}
