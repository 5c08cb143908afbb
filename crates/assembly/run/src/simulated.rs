//! A run's network as a model: portals at the stations, the session's clock,
//! captures, and what is to be said at the end.

use std::collections::BTreeMap;
use std::net::Ipv4Addr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc;
use std::thread::JoinHandle;

use timeloom_fabric::Fabric;
use timeloom_guest::Clock;
use timeloom_net::{Node, World};
use timeloom_portal::{
    Address, Arrive, Emulation, Follow, Options, PacketOptions, PacketPort, Portals, Report, Tap,
    Timing,
};
use timeloom_results::{NodeKind, RunDirectory, Topology};
use timeloom_scenario::{Background, Mode, NETWORK, Plan, Simulated};
use timeloom_time::{ClockMap, Duration, Instant, Utc, Virtual, Wall};

use crate::error::RunError;
use crate::network;
use crate::network_signals;
use crate::ptp_clocks::{self, PtpClocks};
use crate::record::Scribe;
use crate::servers;
use crate::spoofing::SpoofWatch;

/// A simulated network that runs.
pub(crate) struct Network {
    /// Ended before the captures.
    emulation: Option<Emulation>,
    captures: Vec<JoinHandle<()>>,
    signals: JoinHandle<()>,
    clocks: PtpClocks,
    servers: Vec<(String, Node)>,
    traffic: Vec<(String, Background)>,
    idle: Arc<AtomicBool>,
}

/// The session's clock, for an emulation that follows it.
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

impl Network {
    /// Joins every station of the fabric to the plan's simulated network;
    /// `None` where it has none.
    pub(crate) fn start(
        plan: &Plan,
        fabric: &Fabric,
        directory: &RunDirectory,
        clock: &Arc<Clock>,
        civil_start: Instant<Utc>,
        scribe: &Scribe,
    ) -> Result<Option<Self>, RunError> {
        let Some(built) = plan.simulated() else {
            return Ok(None);
        };
        let mut simulated = built.map_err(|fault| {
            RunError::Plan(format!("{}: {}", fault.path.join("."), fault.message))
        })?;
        let failed = |error| RunError::Start(format!("the simulated network: {error}"));
        let mut portals = Portals::new();
        let system = &plan.system;
        let stations = system.hosts.keys().chain(system.devices.keys());
        for name in stations.filter(|name| !plan.is_real(name)) {
            let node = simulated.nodes[name];
            let Some(address) = address(&simulated, name) else {
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
            let name = network::uplink(*index);
            let station = fabric.station(&name).expect("the fabric was told of it");
            let port = PacketPort::open(station, "eth0", PacketOptions::default());
            let port = Box::new(port.map_err(failed)?);
            portals
                .join(*node, &name, port, Default::default())
                .map_err(failed)?;
        }
        let stations = system.hosts.keys().chain(system.devices.keys());
        let addresses: Vec<(&str, Ipv4Addr, [u8; 6])> = stations
            .filter(|name| !plan.is_real(name))
            .filter_map(|name| {
                let own = address(&simulated, name)?;
                Some((name.as_str(), own.address, own.mac))
            })
            .collect();
        let mut links = BTreeMap::new();
        let mut captures = Vec::new();
        for capture in &plan.captures {
            let Some(cable) = simulated.names.between(&capture.link) else {
                continue; // the fabric's capture has it
            };
            let (there, back) = (cable.there, cable.back);
            let name = capture.link.join("-");
            let watch = SpoofWatch::new(
                addresses.iter().map(|(name, ip, mac)| (*name, *ip, *mac)),
                false,
            );
            let (frames, thread) = record(&name, directory, civil_start, scribe, watch)?;
            links.insert(there, frames.clone());
            links.insert(back, frames);
            captures.push(thread);
        }
        let traffic = plan.network.as_ref().map_or(&[][..], |n| &n.traffic);
        let traffic = traffic
            .iter()
            .zip(&simulated.traffic)
            .map(|(what, how)| (format!("{} to {}", what.from, what.to), *how))
            .collect();
        let (signals, topology) = network_signals::start(plan, &simulated, scribe);
        directory.write_topology(&topology)?;
        scribe.event("local", NETWORK, "topology", &counted(&topology));
        let clocks = PtpClocks::start(plan, &mut simulated, civil_start, scribe)?;
        let servers = servers::start(plan, &mut simulated)?;
        let idle = Arc::new(AtomicBool::new(false));
        let skips = plan.time.skips();
        let follow = SessionClock {
            clock: Arc::clone(clock),
            idle: Arc::clone(&idle),
            announces: skips || plan.time.mode == Mode::Stepped,
        };
        let mut options = Options {
            watch: links.keys().copied().collect(),
            // Where others say when time goes on, a processor may doze meanwhile.
            awake: !follow.announces,
            sample: Some((signals.every, signals.look)),
            ..Options::default()
        };
        if skips {
            // Skipping waits for this thread, which had better not doze.
            options.moderation = Duration::ZERO;
        }
        if !links.is_empty() {
            options.capture = Some(Box::new(move |port, at, wall, frame: &[u8]| {
                if let Some(frames) = links.get(&port) {
                    // The recorder ends after us, unless its disk is full.
                    let _ = frames.send((at, wall, frame.to_vec()));
                }
            }));
        }
        let timing = Timing::Follow(Box::new(follow));
        let emulation =
            Emulation::start(simulated.world, portals, timing, options).map_err(failed)?;
        clock.on_change(emulation.waker());
        Ok(Some(Self {
            emulation: Some(emulation),
            captures,
            signals: signals.writer,
            clocks,
            servers,
            traffic,
            idle,
        }))
    }

    /// Whether nothing happens in it before what it has announced.
    pub(crate) fn quiet(&self) -> Arc<AtomicBool> {
        Arc::clone(&self.idle)
    }

    /// What lets it go ahead of a clock that stands; see [`Emulation::ahead`].
    pub(crate) fn ahead(
        &self,
    ) -> Option<impl Fn(Instant<Virtual>, Arrive) -> bool + Send + Sync + use<>> {
        self.emulation.as_ref().map(Emulation::ahead)
    }

    /// Ends it; what is to be said about it goes to the scribe, and what makes
    /// the results doubtful comes back.
    pub(crate) fn stop(mut self, scribe: &Scribe) -> Vec<String> {
        let Some(emulation) = self.emulation.take() else {
            return Vec::new();
        };
        let traffic = std::mem::take(&mut self.traffic);
        let clocks = self.clocks.nodes();
        let servers = std::mem::take(&mut self.servers);
        let told = emulation.with(move |engine| {
            let world = &engine.model;
            let tell = |(name, how): (String, Background)| ("traffic", tell(world, &name, how));
            let traffic = traffic.into_iter().map(tell);
            let clocks = clocks
                .iter()
                .filter_map(|(name, node)| Some(("ptp", ptp_clocks::tell(world, name, *node)?)));
            let servers = servers
                .iter()
                .filter_map(|(name, node)| Some(("served", servers::tell(world, name, *node)?)));
            traffic.chain(clocks).chain(servers).collect::<Vec<_>>()
        });
        for (kind, text) in told.unwrap_or_default() {
            scribe.event("local", "network", kind, &text);
        }
        let report = emulation.stop();
        self.clocks.stop();
        for thread in self.captures.drain(..) {
            let _ = thread.join();
        }
        let _ = self.signals.join();
        match report {
            Some(report) => doubts(&report, scribe),
            None => vec!["The simulated network's thread has died.".to_owned()],
        }
    }
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

/// When a frame passed, virtually and by the wall clock, and its bytes.
type TimedFrame = (Instant<Virtual>, Instant<Wall>, Vec<u8>);

/// Writes what comes through the channel to `net/NAME.pcapng`, in a thread of
/// its own, so that the disk does not delay the network.
fn record(
    name: &str,
    directory: &RunDirectory,
    start: Instant<Utc>,
    scribe: &Scribe,
    mut watch: SpoofWatch,
) -> Result<(mpsc::Sender<TimedFrame>, JoinHandle<()>), RunError> {
    let mut file = directory.capture(name, start)?;
    let (frames, seen) = mpsc::channel::<TimedFrame>();
    let (scribe, name) = (scribe.clone(), name.to_owned());
    let write = move || {
        for (at, wall, frame) in seen {
            if let Some(spoofed) = watch.look(at, &frame) {
                scribe.spoofed(at, &name, &spoofed);
            }
            if let Err(error) = file.packet(at, wall, &frame, None) {
                return scribe.failed(&format!("the capture of {name}: {error}"));
            }
        }
    };
    let thread = std::thread::Builder::new().spawn(write);
    let thread =
        thread.map_err(|error| RunError::Start(format!("no thread for a capture: {error}")))?;
    Ok((frames, thread))
}

fn tell(world: &World, name: &str, how: Background) -> String {
    match how {
        Background::Flow(flow) => {
            let stats = world.tcp(flow);
            format!(
                "{name}: {} bytes by TCP, {} segments sent again, {} timeouts",
                stats.delivered_bytes, stats.retransmitted, stats.timeouts
            )
        }
        Background::Fluid(flow) => {
            let stats = world.fluid(flow);
            format!(
                "{name}: {:.0} bytes of fluid, {:.0} lost, slowed down {} times",
                stats.delivered_bytes, stats.lost_bytes, stats.slowed
            )
        }
        Background::Source(source) => {
            let stats = world.traffic(source);
            let mean_ns = stats.delay_sum_ns / stats.received.max(1);
            format!(
                "{name}: {} packets sent, {} arrived ({} bytes), {} lost, {} out of order; one way took {} on average and {} at most",
                stats.sent,
                stats.received,
                stats.received_bytes,
                stats.expected.saturating_sub(stats.received),
                stats.reordered,
                Duration::from_ns(mean_ns as i64),
                Duration::from_ns(stats.delay_max_ns as i64)
            )
        }
    }
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

fn doubts(report: &Report, scribe: &Scribe) -> Vec<String> {
    let lateness = &report.lateness;
    let summary = format!(
        "{} events, {} frames in, {} out; at most {} late, 99 % within {}; {} refused, {} malformed, {} dropped by this machine",
        report.events,
        report.ports.iter().map(|port| port.received).sum::<u64>(),
        report.ports.iter().map(|port| port.sent).sum::<u64>(),
        lateness.worst(),
        lateness.quantile(0.99),
        report.ports.iter().map(|port| port.refused).sum::<u64>(),
        report.counters.malformed + report.ports.iter().map(|port| port.malformed).sum::<u64>(),
        report.dropped_by_machine(),
    );
    scribe.event("local", "network", "summary", &summary);
    if !report.untrusted() {
        return Vec::new();
    }
    let dropped = match report.dropped_by_machine() {
        0 => String::new(),
        1 => "; it dropped one frame".to_owned(),
        frames => format!("; it dropped {frames} frames"),
    };
    let text = format!(
        "This machine was too slow for the simulated network, so its results are not to be \
         trusted: {} of {} events were more than 1 ms late, the worst by {}{dropped}.",
        lateness.late(),
        lateness.events(),
        lateness.worst(),
    );
    scribe.event("local", "network", "untrusted", &text);
    vec![text]
}
