//! A dumbbell in one engine, and in two that wait for each other.

use std::sync::Barrier;
use std::time;

use timeloom_emulation::peering::Cut;
use timeloom_emulation::peering::exact::{self, Shared};
use timeloom_engine::Engine;
use timeloom_net::topology::dumbbell;
use timeloom_net::{
    Arrival, NetworkBuilder, Node, Owner, PacketSize, Pattern, TcpConfig, TrafficConfig, World,
};
use timeloom_time::{Duration, Instant, Virtual};

use super::model::{go_first, own_core, ppp, refused, thread_cpu_s};
use super::real_packets;
use super::staircase::{Sample, Stairs};
use crate::error::BenchError;

/// A dumbbell with 64 hosts on each side, whose bottleneck link (the bar) is cut.
#[derive(Clone, Copy, Debug)]
pub(super) struct Model {
    /// Number of TCP flows from left to right.
    pub(super) flows: u32,
    /// Number of TCP flows within each side.
    pub(super) local: u32,
    /// Number of UDP sources from left to right; the item below is the rate of each.
    pub(super) sources: u32,
    pub(super) source_bps: u64,
    /// True if sources send at random instants, and not at a constant rate.
    pub(super) poisson: bool,
    /// Number of pairs of hosts that exchange packets with all their bytes (`real_packets`).
    pub(super) real: u32,
    /// Propagation delay of the bottleneck link.
    pub(super) bar: Duration,
    /// Staircase by which flows and sources start and delivered data is sampled; `None` if all
    /// start at once.
    pub(super) stairs: Option<Stairs>,
}

impl Model {
    pub(super) fn tcp(flows: u32, bar: Duration) -> Self {
        Self {
            flows,
            local: 0,
            sources: 0,
            source_bps: 0,
            poisson: false,
            real: 0,
            bar,
            stairs: None,
        }
    }

    /// Returns the start of flow or source number `index`; `apart_ns` is the time between two
    /// starts.
    fn start(&self, index: u32, apart_ns: i64) -> Instant<Virtual> {
        let apart = Instant::from_ns(i64::from(index) * apart_ns);
        self.stairs
            .map_or(apart, |stairs| apart + stairs.start(index))
    }

    /// Returns the instants up to `simulated` at which delivered data is sampled.
    pub(super) fn marks(&self, simulated: Duration) -> Vec<Instant<Virtual>> {
        let end = || vec![Instant::ZERO + simulated];
        self.stairs
            .map_or_else(end, |stairs| stairs.marks(simulated))
    }

    pub(super) fn udp(sources: u32, source_bps: u64, bar: Duration) -> Self {
        Self {
            sources,
            source_bps,
            ..Self::tcp(0, bar)
        }
    }
}

/// Size of a source's datagrams in bytes.
const DATAGRAM: u16 = 1_000;

/// Builds the whole network, and its cut at the bottleneck link.
pub(super) fn build(model: &Model) -> Result<(World, Cut), BenchError> {
    let mut network = NetworkBuilder::new(1);
    let access = ppp(1_000_000_000, Duration::from_ms(1));
    let bar = ppp(10_000_000_000, model.bar);
    let ends = dumbbell(&mut network, "", 64, &access, &bar);
    let mut world = network.build().map_err(refused)?;
    let pair = |index: u32| {
        let host = (index % 64) as usize;
        (ends.left[host], ends.right[host])
    };
    for flow in 0..model.flows {
        let config = TcpConfig {
            start: model.start(flow, 370_000),
            ..TcpConfig::default()
        };
        let (from, to) = pair(flow);
        world.add_tcp(from, to, config).map_err(refused)?;
    }
    for flow in 0..model.local {
        let config = TcpConfig {
            start: Instant::from_ns(i64::from(flow) * 370_000),
            // The window is large enough to fill the path within a side.
            receive_window: 512,
            ..TcpConfig::default()
        };
        for side in [&ends.left, &ends.right] {
            // These pairs of hosts are not used by other flows.
            let from = side[side.len() - 1 - 2 * flow as usize];
            let to = side[side.len() - 2 - 2 * flow as usize];
            world.add_tcp(from, to, config.clone()).map_err(refused)?;
        }
    }
    for source in 0..model.sources {
        let rate_bps = model.source_bps;
        let pattern = if model.poisson {
            let ns = u64::from(DATAGRAM) * 8_000_000_000 / rate_bps.max(1);
            Pattern::Poisson {
                mean: Duration::from_ns(ns as i64),
            }
        } else {
            Pattern::Constant { rate_bps }
        };
        let config = TrafficConfig {
            start: model.start(source, 7_919),
            ..TrafficConfig::udp(pattern, PacketSize::Fixed(DATAGRAM))
        };
        let (from, to) = pair(source);
        world.add_traffic(from, to, config).map_err(refused)?;
    }
    let pairs = ends.left.iter().zip(&ends.right).take(model.real as usize);
    for (from, to) in pairs {
        real_packets::send(&mut world, *from, *to);
    }
    let nodes = (0..world.nodes() as u32).map(Node);
    let owners = nodes.map(|node| Owner::from(world.name(node).starts_with('r')));
    let cut = Cut::new(&world, owners.collect());
    let cut = cut.map_err(|error| BenchError::Worker(error.to_string()))?;
    Ok((world, cut))
}

/// Cost and results of a run.
#[derive(Debug, Default)]
pub(super) struct Outcome {
    pub(super) wall_s: f64,
    /// CPU time of each engine, in seconds.
    pub(super) cpu_s: Vec<f64>,
    pub(super) hops: u64,
    /// Number of packets with bytes that arrived.
    pub(super) real: u64,
    /// Payload bytes of flows and sources that arrived.
    pub(super) delivered: u64,
    /// Arrivals on the right side, in order of time.
    pub(super) arrivals: Vec<Arrival>,
    /// Data delivered by each of the instants of [`Model::marks`].
    pub(super) samples: Vec<Sample>,
}

/// An engine after its run, with the cost of the run.
pub(super) struct Part {
    pub(super) engine: Engine<World>,
    pub(super) wall_s: f64,
    pub(super) cpu_s: f64,
    pub(super) samples: Vec<Sample>,
}

pub(super) fn started(mut world: World, note: bool) -> Engine<World> {
    if note {
        world.note_arrivals();
    }
    let mut engine: Engine<World> = Engine::new(world);
    engine.with(|world, agenda| world.start(agenda));
    engine
}

/// Runs the model in one engine.
pub(super) fn single(model: &Model, simulated: Duration) -> Result<Outcome, BenchError> {
    let run = |_, _: Option<()>| {
        go_first();
        let (world, _) = build(model)?;
        let mut engine = started(world, false);
        let (wall, cpu) = (time::Instant::now(), thread_cpu_s());
        engine.run_until(Instant::ZERO + simulated, u64::MAX);
        let wall_s = wall.elapsed().as_secs_f64();
        Ok(Part {
            wall_s,
            cpu_s: thread_cpu_s() - cpu,
            samples: vec![Sample::of(&engine.model, wall_s)],
            engine,
        })
    };
    Ok(join(on_threads(1, run, Vec::new())?))
}

/// Runs the model in two engines that wait for each other.
pub(super) fn conservative(
    model: &Model,
    simulated: Duration,
    note: bool,
) -> Result<Outcome, BenchError> {
    let begin = Barrier::new(2);
    let parts = on_threads(
        2,
        |here, shared: Option<Shared>| {
            let mut shared = shared.expect("one for each");
            own_core(here.into());
            let (mut world, cut) = build(model)?;
            cut.apply(&mut world, here);
            let mut engine = started(world, note);
            go_first();
            begin.wait();
            let (wall, cpu) = (time::Instant::now(), thread_cpu_s());
            let mut samples = Vec::new();
            for mark in model.marks(simulated) {
                exact::run(&mut engine, &cut, &mut shared, mark)
                    .map_err(|error| BenchError::Worker(error.to_string()))?;
                samples.push(Sample::of(&engine.model, wall.elapsed().as_secs_f64()));
            }
            Ok(Part {
                wall_s: wall.elapsed().as_secs_f64(),
                cpu_s: thread_cpu_s() - cpu,
                samples,
                engine,
            })
        },
        Shared::new(2),
    )?;
    Ok(join(parts))
}

pub(super) fn join(parts: Vec<Part>) -> Outcome {
    let mut outcome = Outcome::default();
    for part in parts {
        let world = &part.engine.model;
        outcome.wall_s = outcome.wall_s.max(part.wall_s);
        outcome.cpu_s.push(part.cpu_s);
        outcome.hops += world.counters().hops;
        outcome.real += real_packets::received(world);
        outcome.arrivals.extend_from_slice(world.arrivals());
        outcome
            .samples
            .resize(part.samples.len(), Sample::default());
        for (all, one) in outcome.samples.iter_mut().zip(&part.samples) {
            all.join(one);
        }
    }
    // The side of the senders has delivered no data.
    let last = outcome.samples.last().copied().unwrap_or_default();
    outcome.delivered = last.tcp_bytes + last.udp_bytes;
    outcome
}

/// Runs `part` on a thread of its own for each of `tools`.
pub(super) fn on_threads<T: Send, R: Send>(
    count: Owner,
    part: impl Fn(Owner, Option<T>) -> Result<R, BenchError> + Sync,
    tools: Vec<T>,
) -> Result<Vec<R>, BenchError> {
    std::thread::scope(|scope| {
        let mut tools = tools.into_iter();
        let part = &part;
        let threads: Vec<_> = (0..count)
            .map(|here| {
                let tool = tools.next();
                scope.spawn(move || part(here, tool))
            })
            .collect();
        let joined = threads.into_iter().map(|thread| thread.join());
        joined
            .map(|result| {
                result.unwrap_or_else(|_| Err(BenchError::Worker("an engine panicked".to_owned())))
            })
            .collect()
    })
}
