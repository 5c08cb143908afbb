//! One dumbbell in one engine, in two that wait for one another, and in two
//! that share a clock and nothing else.

use std::net::UdpSocket;
use std::sync::Barrier;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time;

use timeloom_engine::{Engine, Limit, Pace, Paced};
use timeloom_net::topology::dumbbell;
use timeloom_net::{
    Arrival, FlowId, NetworkBuilder, Node, Owner, Pattern, Size, SourceId, TcpConfig,
    TrafficConfig, World,
};
use timeloom_peering::datagram::Key;
use timeloom_peering::exact::{self, Shared};
use timeloom_peering::peer::{PeerConfig, PeerStats, Policy};
use timeloom_peering::{Cut, Pause, Portal, PortalStats, Socket, run, wall_now};
use timeloom_time::{ClockMap, Duration, Instant, Rate};

use super::model::{go_first, ppp, refused, thread_cpu_s};
use crate::error::BenchError;

/// A dumbbell of 2 × 64 hosts whose bar is cut.
#[derive(Clone, Copy, Debug)]
pub(super) struct Model {
    /// TCP flows from the left to the right.
    pub(super) flows: u32,
    /// TCP flows within each side.
    pub(super) local: u32,
    /// Sources of UDP from the left to the right, and what each sends.
    pub(super) sources: u32,
    pub(super) source_bps: u64,
    /// At random instants instead of at a constant rate.
    pub(super) poisson: bool,
    /// The delay of the bar.
    pub(super) bar: Duration,
}

impl Model {
    pub(super) fn tcp(flows: u32, bar: Duration) -> Self {
        Self {
            flows,
            local: 0,
            sources: 0,
            source_bps: 0,
            poisson: false,
            bar,
        }
    }

    pub(super) fn udp(sources: u32, source_bps: u64, bar: Duration) -> Self {
        Self {
            sources,
            source_bps,
            ..Self::tcp(0, bar)
        }
    }
}

/// Bytes of each datagram of a source.
const DATAGRAM: u16 = 1_000;

/// The whole network, and its cut at the bar.
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
            start: Instant::from_ns(i64::from(flow) * 370_000),
            ..TcpConfig::default()
        };
        let (from, to) = pair(flow);
        world.add_tcp(from, to, config).map_err(refused)?;
    }
    for flow in 0..model.local {
        let config = TcpConfig {
            start: Instant::from_ns(i64::from(flow) * 370_000),
            // As much as fills the way within a side.
            receive_window: 512,
            ..TcpConfig::default()
        };
        for side in [&ends.left, &ends.right] {
            // Pairs of hosts that no other flow has.
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
            start: Instant::from_ns(i64::from(source) * 7_919),
            ..TrafficConfig::udp(pattern, Size::Fixed(DATAGRAM))
        };
        let (from, to) = pair(source);
        world.add_traffic(from, to, config).map_err(refused)?;
    }
    let nodes = (0..world.nodes() as u32).map(Node);
    let owners = nodes.map(|node| Owner::from(world.name(node).starts_with('r')));
    let cut = Cut::new(&world, owners.collect());
    let cut = cut.map_err(|error| BenchError::Worker(error.to_string()))?;
    Ok((world, cut))
}

/// What a run took and gave.
#[derive(Debug, Default)]
pub(super) struct Outcome {
    pub(super) wall_s: f64,
    /// By engine.
    pub(super) cpu_s: Vec<f64>,
    pub(super) hops: u64,
    /// Payload bytes of flows and sources that arrived.
    pub(super) delivered: u64,
    /// At the right side, by instant.
    pub(super) arrivals: Vec<Arrival>,
}

fn delivered(world: &World) -> u64 {
    let (flows, sources) = world.traffic_counts();
    let flows = (0..flows as u32).map(|flow| world.tcp(FlowId(flow)).delivered_bytes);
    let sources = (0..sources as u32).map(|source| world.traffic(SourceId(source)).received_bytes);
    flows.chain(sources).sum()
}

fn started(mut world: World, note: bool) -> Engine<World> {
    if note {
        world.note_arrivals();
    }
    let mut engine: Engine<World> = Engine::new(world);
    engine.with(|world, agenda| world.start(agenda));
    engine
}

/// In one engine.
pub(super) fn single(model: &Model, simulated: Duration) -> Result<Outcome, BenchError> {
    let run = |_, _: Option<()>| {
        go_first();
        let (world, _) = build(model)?;
        let mut engine = started(world, false);
        let (wall, cpu) = (time::Instant::now(), thread_cpu_s());
        engine.run_until(Instant::ZERO + simulated, u64::MAX);
        Ok((engine, wall.elapsed().as_secs_f64(), thread_cpu_s() - cpu))
    };
    Ok(join(on_threads(1, run, Vec::new())?))
}

/// In two that wait for one another.
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
            let (mut world, cut) = build(model)?;
            cut.apply(&mut world, here);
            let mut engine = started(world, note);
            go_first();
            begin.wait();
            let (wall, cpu) = (time::Instant::now(), thread_cpu_s());
            exact::run(&mut engine, &cut, &mut shared, Instant::ZERO + simulated)
                .map_err(|error| BenchError::Worker(error.to_string()))?;
            Ok((engine, wall.elapsed().as_secs_f64(), thread_cpu_s() - cpu))
        },
        Shared::new(2),
    )?;
    Ok(join(parts))
}

fn join(parts: Vec<(Engine<World>, f64, f64)>) -> Outcome {
    let mut outcome = Outcome::default();
    for (engine, wall_s, cpu_s) in parts {
        outcome.wall_s = outcome.wall_s.max(wall_s);
        outcome.cpu_s.push(cpu_s);
        outcome.hops += engine.model.counters().hops;
        // The senders' side has delivered nothing.
        outcome.delivered += delivered(&engine.model);
        outcome.arrivals.extend_from_slice(engine.model.arrivals());
    }
    outcome
}

/// Does `part` on so many threads, each with one of `tools`.
fn on_threads<T: Send, R: Send>(
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

/// How two engines run that do not wait.
#[derive(Clone, Copy, Debug)]
pub(super) struct Free {
    /// Simulated time over wall time.
    pub(super) rate: f64,
    /// How long bulk packets may wait for others at the sender.
    pub(super) hold: Duration,
    /// The size of datagrams.
    pub(super) bytes: usize,
    /// How long what came in may wait at the receiver.
    pub(super) receiver_hold: Duration,
    /// Note all arrivals.
    pub(super) note: bool,
}

impl Default for Free {
    fn default() -> Self {
        let policy = PeerConfig::default().bulk;
        Self {
            rate: 1.0,
            hold: policy.hold,
            bytes: policy.bytes,
            receiver_hold: Duration::ZERO,
            note: false,
        }
    }
}

/// What such a run gave beyond the usual.
#[derive(Debug, Default)]
pub(super) struct FreeOutcome {
    pub(super) common: Outcome,
    /// Packets that came from the other engine, and those after their instant.
    pub(super) taken: u64,
    pub(super) late: u64,
    /// By how much they were late at most, at the 99th percentile, ns.
    pub(super) late_p99_ns: f64,
    /// Events handled later than 1 ms after their instant, as a fraction.
    pub(super) behind: f64,
    pub(super) peers: Vec<PeerStats>,
}

impl FreeOutcome {
    pub(super) fn late_fraction(&self) -> f64 {
        self.late as f64 / self.taken.max(1) as f64
    }
}

/// In two that share a clock and nothing else.
pub(super) fn free(
    model: &Model,
    simulated: Duration,
    how: &Free,
) -> Result<FreeOutcome, BenchError> {
    let failed = || BenchError::system("the sockets of two engines");
    let bind = || UdpSocket::bind("127.0.0.1:0");
    let (a, b) = (bind().map_err(failed())?, bind().map_err(failed())?);
    let (to_a, to_b) = (
        a.local_addr().map_err(failed())?,
        b.local_addr().map_err(failed())?,
    );
    let sockets = vec![
        Socket::new(a, to_b).map_err(failed())?,
        Socket::new(b, to_a).map_err(failed())?,
    ];
    let rate = Rate::from_f64(how.rate)
        .ok_or_else(|| BenchError::Worker("a rate is above 0".to_owned()))?;
    let (begin, origin) = (Barrier::new(2), AtomicI64::new(0));
    let parts = on_threads(
        2,
        |here, socket: Option<Socket>| {
            let socket = socket.expect("one for each");
            let (mut world, cut) = build(model)?;
            cut.apply(&mut world, here);
            let key = Key::new([1; 32]);
            let mut portal = Portal::new(
                &world,
                cut,
                here,
                key,
                1 + u64::from(here),
                Limit::default(),
            );
            let bulk = Policy {
                hold: how.hold,
                bytes: how.bytes,
                compress: true,
            };
            let config = PeerConfig {
                bulk,
                // Only one that has crashed is away: a benchmark starves it at times.
                silence: Duration::from_s(10),
                ..PeerConfig::default()
            };
            portal.add(&mut world, 1 - here, socket, config);
            let mut engine = started(world, how.note);
            let asked = time::Instant::now();
            while !portal.is_complete() {
                portal.poll(&mut engine, wall_now()).map_err(failed())?;
                std::thread::yield_now();
                if asked.elapsed() > time::Duration::from_secs(10) {
                    return Err(BenchError::Worker(
                        "the other engine did not come".to_owned(),
                    ));
                }
            }
            go_first();
            begin.wait();
            if here == 0 {
                // A moment ahead, so that neither begins behind.
                let start = wall_now() + Duration::from_ms(2);
                origin.store(start.as_ns(), Ordering::SeqCst);
            }
            begin.wait();
            let start = Instant::from_ns(origin.load(Ordering::SeqCst));
            let pace = Pace::Clock(ClockMap::new(start, Instant::ZERO, rate));
            let mut paced = Paced::new(engine, pace, Limit::default());
            let (wall, cpu) = (time::Instant::now(), thread_cpu_s());
            let pause = Pause {
                hold: how.receiver_hold,
                ..Pause::default()
            };
            let end = Instant::ZERO + simulated;
            run(&mut paced, &mut portal, end, pause, || false).map_err(failed())?;
            let took = (wall.elapsed().as_secs_f64(), thread_cpu_s() - cpu);
            let behind = paced.lateness().late_fraction();
            let peer = portal
                .peers()
                .next()
                .map(|(_, _, stats)| stats)
                .unwrap_or_default();
            let late = portal.lateness().quantile(0.99);
            Ok((paced, took, (portal.stats(), peer, late, behind)))
        },
        sockets,
    )?;
    let mut outcome = FreeOutcome::default();
    let mut engines = Vec::new();
    for (paced, (wall_s, cpu_s), (stats, peer, late, behind)) in parts {
        let PortalStats {
            taken, late: count, ..
        } = stats;
        outcome.taken += taken;
        outcome.late += count;
        outcome.late_p99_ns = outcome.late_p99_ns.max(late.as_ns() as f64);
        outcome.behind = outcome.behind.max(behind);
        outcome.peers.push(peer);
        engines.push((paced.engine, wall_s, cpu_s));
    }
    outcome.common = join(engines);
    Ok(outcome)
}
