//! What is recorded of a simulated network: of each link and flow, over virtual time, as
//! signals of the source `net`; and what it is made of.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::mpsc::{self, Sender};
use std::thread::JoinHandle;

use timeloom_net::{FlowId, FluidId, LinkStats, PortId, SourceId, World};
use timeloom_portal::Sample;
use timeloom_results::{NodeKind, Topology, TopologyFlow, TopologyLink, TopologyNode};
use timeloom_scenario::{Background, NETWORK, NamedCable, Plan, Simulated};
use timeloom_time::{Duration, Instant, Virtual};

use crate::record::Scribe;

/// The signals of a network while it runs.
pub(crate) struct Signals {
    /// How often the model is looked at.
    pub(crate) every: Duration,
    /// What looks at it.
    pub(crate) look: Sample,
    /// Ends with what looks.
    pub(crate) writer: JoinHandle<()>,
}

/// A sample: when, of which signal, value and unit.
type Row = (Instant<Virtual>, Arc<str>, f64, &'static str);

/// Prepares to record the network. The rows are written by a thread of their own, so that
/// the disk does not delay the network.
pub(crate) fn start(plan: &Plan, simulated: &Simulated, scribe: &Scribe) -> (Signals, Topology) {
    let recorded = recorded(plan, simulated);
    let cables = simulated.names.cables.iter().zip(&recorded);
    let cables = cables.filter(|(_, recorded)| **recorded);
    let mut links: Vec<LinkMeter> = cables
        .map(|(cable, _)| LinkMeter::new(cable, &simulated.world))
        .collect();
    let flows = simulated.names.flows.iter().zip(&simulated.traffic);
    let mut flows: Vec<FlowMeter> = flows
        .map(|(name, how)| FlowMeter::new(name, *how))
        .collect();
    let (rows, written) = mpsc::channel::<Vec<Row>>();
    let scribe = scribe.clone();
    let writer = std::thread::spawn(move || {
        for (at, name, value, unit) in written.into_iter().flatten() {
            scribe.network_sample(at, &name, value, unit);
        }
    });
    let part = Duration::from_ns(plan.time.duration.as_ns() / SAMPLES);
    let every = part.clamp(Duration::from_ms(100), Duration::from_s(1));
    let look: Sample = Box::new(move |at, world| {
        send(&rows, at, every, world, &mut links, &mut flows);
    });
    let topology = topology(plan, simulated, &recorded);
    let signals = Signals {
        every,
        look,
        writer,
    };
    (signals, topology)
}

fn send(
    rows: &Sender<Vec<Row>>,
    at: Instant<Virtual>,
    every: Duration,
    world: &mut World,
    links: &mut [LinkMeter],
    flows: &mut [FlowMeter],
) {
    let mut all = Vec::new();
    for link in links {
        link.measure(at, every, world, &mut all);
    }
    for flow in flows {
        flow.measure(at, every, world, &mut all);
    }
    // At zero nothing has happened yet; from there on the meters count.
    if at > Instant::ZERO {
        // The writer ends after us.
        let _ = rows.send(all);
    }
}

/// Whether each cable is recorded: those of `system.links` and those that a check or panel
/// names always, of others the first up to a limit, backbones before hosts' own.
fn recorded(plan: &Plan, simulated: &Simulated) -> Vec<bool> {
    let panels = plan.panels.iter().flat_map(|panel| &panel.signals);
    let named = panels.map(|signal| &signal.name);
    let named = named.chain(plan.checks.iter().map(|check| &check.assert.signal));
    let named: BTreeSet<&str> = named
        .filter(|name| name.plant == NETWORK)
        .filter_map(|name| name.signal.strip_prefix("link.")?.rsplit_once('.'))
        .map(|(link, _)| link)
        .collect();
    let is_host = |name: &String| {
        let node = simulated.nodes.get(name);
        node.is_some_and(|node| simulated.world.is_host(*node))
    };
    let cables = &simulated.names.cables;
    let mut order: Vec<usize> = (0..cables.len()).collect();
    let rank = |index: &usize| {
        let cable = &cables[*index];
        let of_plan = plan
            .system
            .links
            .iter()
            .any(|link| link.between == cable.ends);
        match () {
            () if named.contains(cable.name.as_str()) || of_plan => 0,
            () if cable.ends.iter().any(is_host) => 2,
            () => 1,
        }
    };
    order.sort_by_cached_key(rank);
    let mut recorded = vec![false; cables.len()];
    for (place, index) in order.into_iter().enumerate() {
        recorded[index] = place < MOST_LINKS || rank(&index) == 0;
    }
    recorded
}

/// One direction of a link.
struct Direction {
    port: PortId,
    before: LinkStats,
    /// Bytes that had left by then, and bytes of fluid that had come and were lost.
    sent_bytes: f64,
    fluid: (f64, f64),
}

/// A link, and how far it was.
struct LinkMeter {
    directions: [Direction; 2],
    rate_bps: f64,
    delay: Duration,
    throughput: Arc<str>,
    load: Arc<str>,
    loss: Arc<str>,
    delays: Arc<str>,
    queue: Arc<str>,
}

/// What one direction did in an interval.
#[derive(Default)]
struct Figures {
    throughput_bps: f64,
    loss: f64,
    wait_s: f64,
    queue: f64,
}

impl LinkMeter {
    fn new(cable: &NamedCable, world: &World) -> Self {
        let direction = |port| Direction {
            port,
            before: LinkStats::default(),
            sent_bytes: 0.0,
            fluid: (0.0, 0.0),
        };
        let name = |quantity: &str| Arc::from(format!("link.{}.{quantity}", cable.name));
        Self {
            directions: [direction(cable.there), direction(cable.back)],
            rate_bps: world.rate_bps(cable.there) as f64,
            delay: world.delay(cable.there),
            throughput: name("throughput"),
            load: name("load"),
            loss: name("loss"),
            delays: name("delay"),
            queue: name("queue"),
        }
    }

    fn measure(
        &mut self,
        at: Instant<Virtual>,
        every: Duration,
        world: &mut World,
        rows: &mut Vec<Row>,
    ) {
        let mut worst = Figures::default();
        for direction in &mut self.directions {
            let now = direction.measure(at, every, world);
            worst.throughput_bps = worst.throughput_bps.max(now.throughput_bps);
            worst.loss = worst.loss.max(now.loss);
            worst.wait_s = worst.wait_s.max(now.wait_s);
            worst.queue = worst.queue.max(now.queue);
        }
        let load = worst.throughput_bps / self.rate_bps;
        rows.extend([
            (
                at,
                Arc::clone(&self.throughput),
                worst.throughput_bps,
                "bit/s",
            ),
            (at, Arc::clone(&self.load), load, "1"),
            (at, Arc::clone(&self.loss), worst.loss, "1"),
            (
                at,
                Arc::clone(&self.delays),
                self.delay.as_s_f64() + worst.wait_s,
                "s",
            ),
            (at, Arc::clone(&self.queue), worst.queue, "packets"),
        ]);
    }
}

impl Direction {
    fn measure(&mut self, at: Instant<Virtual>, every: Duration, world: &mut World) -> Figures {
        let stats = world.link(self.port);
        let fluid = world.fluid_link(self.port);
        // A packet counts as sent when that is certain; what still waits has not left.
        let backlog_s = world.backlog(self.port, at).as_s_f64();
        let backlog_bytes = backlog_s * world.rate_bps(self.port) as f64 / 8.0;
        let came = stats.bytes as f64 + fluid.arrived_bytes - fluid.lost_bytes;
        let sent_bytes = (came - backlog_bytes).max(self.sent_bytes);

        let before = std::mem::replace(&mut self.before, stats);
        let packets = stats.packets - before.packets;
        let dropped = stats.dropped - before.dropped;
        let gone = dropped + (stats.lost - before.lost);
        let waited_ns = stats.waited_ns - before.waited_ns;
        let (fluid_came, fluid_lost) = (
            fluid.arrived_bytes - self.fluid.0,
            fluid.lost_bytes - self.fluid.1,
        );
        self.fluid = (fluid.arrived_bytes, fluid.lost_bytes);
        let figures = Figures {
            throughput_bps: (sent_bytes - self.sent_bytes) * 8.0 / every.as_s_f64(),
            loss: share(gone as f64, (packets + dropped) as f64).max(share(fluid_lost, fluid_came)),
            wait_s: share(waited_ns as f64 * 1e-9, packets as f64),
            queue: f64::from(world.waiting(self.port, at)) + fluid.waiting_bytes / FLUID_PACKET,
        };
        self.sent_bytes = sent_bytes;
        figures
    }
}

/// A flow, and how far it was: bytes delivered, and of what came or should have come how much
/// was lost.
struct FlowMeter {
    how: Background,
    delivered_bytes: f64,
    expected: f64,
    lost: f64,
    arrived: (u64, u64),
    throughput: Arc<str>,
    loss: Arc<str>,
    delay: Arc<str>,
}

impl FlowMeter {
    fn new(name: &str, how: Background) -> Self {
        let name = |quantity: &str| Arc::from(format!("flow.{name}.{quantity}"));
        Self {
            how,
            delivered_bytes: 0.0,
            expected: 0.0,
            lost: 0.0,
            arrived: (0, 0),
            throughput: name("throughput"),
            loss: name("loss"),
            delay: name("delay"),
        }
    }

    fn measure(
        &mut self,
        at: Instant<Virtual>,
        every: Duration,
        world: &World,
        rows: &mut Vec<Row>,
    ) {
        let (delivered, expected, lost, delay_s) = match self.how {
            Background::Flow(flow) => of_tcp(world, flow),
            Background::Source(source) => self.of_source(world, source),
            Background::Fluid(flow) => of_fluid(world, flow),
        };
        let bits = (delivered - self.delivered_bytes) * 8.0;
        let loss = share(lost - self.lost, expected - self.expected);
        (self.delivered_bytes, self.expected, self.lost) = (delivered, expected, lost);
        rows.push((
            at,
            Arc::clone(&self.throughput),
            bits / every.as_s_f64(),
            "bit/s",
        ));
        rows.push((at, Arc::clone(&self.loss), loss, "1"));
        if let Some(delay_s) = delay_s {
            rows.push((at, Arc::clone(&self.delay), delay_s, "s"));
        }
    }

    /// Of datagrams, the delay is the mean of those that came in the interval.
    fn of_source(&mut self, world: &World, source: SourceId) -> (f64, f64, f64, Option<f64>) {
        let stats = world.traffic(source);
        let came = stats.received - self.arrived.0;
        let delay_ns = stats.delay_sum_ns - self.arrived.1;
        self.arrived = (stats.received, stats.delay_sum_ns);
        let delay_s = (came > 0).then(|| delay_ns as f64 * 1e-9 / came as f64);
        let lost = stats.expected.saturating_sub(stats.received);
        (
            stats.received_bytes as f64,
            stats.expected as f64,
            lost as f64,
            delay_s,
        )
    }
}

/// Of a TCP, the delay is its smoothed round trip, and what it sent again counts as lost.
fn of_tcp(world: &World, flow: FlowId) -> (f64, f64, f64, Option<f64>) {
    let stats = world.tcp(flow);
    let delivered = stats.delivered_bytes as f64;
    let segments = delivered / f64::from(world.segment_bytes(flow));
    let again = stats.retransmitted as f64;
    let rtt_s = stats.smoothed_rtt.as_s_f64();
    (
        delivered,
        segments + again,
        again,
        (rtt_s > 0.0).then_some(rtt_s),
    )
}

fn of_fluid(world: &World, flow: FluidId) -> (f64, f64, f64, Option<f64>) {
    let stats = world.fluid(flow);
    let rtt_s = stats.round_trip.as_s_f64();
    let delay_s = (rtt_s > 0.0).then_some(rtt_s);
    (
        stats.delivered_bytes,
        stats.sent_bytes,
        stats.lost_bytes,
        delay_s,
    )
}

/// A part of a whole; of nothing, none.
fn share(part: f64, whole: f64) -> f64 {
    if whole > 0.0 {
        (part / whole).max(0.0)
    } else {
        0.0
    }
}

fn topology(plan: &Plan, simulated: &Simulated, recorded: &[bool]) -> Topology {
    let world = &simulated.world;
    let system = &plan.system;
    let is_real = |name: &str| system.hosts.contains_key(name) || system.devices.contains_key(name);
    let mut named: Vec<_> = simulated.nodes.iter().collect();
    named.sort_by_key(|(_, node)| **node);
    let nodes: Vec<TopologyNode> = named
        .iter()
        .map(|(name, node)| TopologyNode {
            name: (*name).clone(),
            kind: match () {
                () if is_real(name) => NodeKind::Real,
                () if world.is_host(**node) => NodeKind::Host,
                () if world.is_switch(**node) => NodeKind::Switch,
                () => NodeKind::Router,
            },
        })
        .collect();
    let places: std::collections::HashMap<&str, usize> = (nodes.iter().enumerate())
        .map(|(place, node)| (node.name.as_str(), place))
        .collect();
    let cables = simulated.names.cables.iter().zip(recorded);
    let links = cables.filter_map(|(cable, recorded)| {
        let [a, b] = &cable.ends;
        Some(TopologyLink {
            name: cable.name.clone(),
            ends: [*places.get(a.as_str())?, *places.get(b.as_str())?],
            rate_bps: world.rate_bps(cable.there),
            delay_ns: world.delay(cable.there).as_ns(),
            recorded: *recorded,
        })
    });
    let traffic = plan.network.iter().flat_map(|network| &network.traffic);
    let flows = simulated.names.flows.iter().zip(traffic);
    let flows = flows.map(|(name, flow)| TopologyFlow {
        name: name.clone(),
        from: flow.from.clone(),
        to: flow.to.clone(),
        kind: flow.kind.word().to_owned(),
    });
    Topology {
        links: links.collect(),
        flows: flows.collect(),
        nodes,
    }
}

/// More would be more rows than anybody reads, and slow down the run.
const MOST_LINKS: usize = 128;

/// How many samples of a signal a run has, unless it is short or long.
const SAMPLES: i64 = 300;

/// What counts as a packet of fluid that waits.
const FLUID_PACKET: f64 = 1500.0;
