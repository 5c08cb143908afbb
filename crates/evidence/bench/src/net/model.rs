//! The dumbbell of the paper's Figure 6 with ns-3's links, for Timeloom's engine.
//! `peers/ns3_dumbbell.cc` is the same model for ns-3; both must be changed together.

use std::time;

use timeloom_engine::Engine;
use timeloom_net::topology::dumbbell;
use timeloom_net::{BuildError, FlowId, LinkConfig, NetworkBuilder, QueueConfig, TcpConfig, World};
use timeloom_sys::clock::thread_time;
use timeloom_sys::schedule::{SchedulingPolicy, set_policy};
use timeloom_time::{Duration, Instant, Virtual};

use crate::cores::{allowed, pin};
use crate::error::BenchError;

/// Parameters of the dumbbell and its simulation.
#[derive(Clone, Copy, Debug)]
pub(super) struct Shape {
    /// Number of hosts on each side.
    pub(super) hosts: u32,
    /// Number of TCP flows, all from left to right.
    pub(super) flows: u32,
    /// Simulated time before goodput is counted.
    pub(super) warm: Duration,
    /// Simulated time in which goodput is counted.
    pub(super) window: Duration,
}

impl Shape {
    /// Returns the paper's dumbbell, with 64 hosts on each side.
    pub(super) fn paper(flows: u32, warm_ms: i64, window_ms: i64) -> Self {
        Self {
            hosts: 64,
            flows,
            warm: Duration::from_ms(warm_ms),
            window: Duration::from_ms(window_ms),
        }
    }

    pub(super) fn simulated_s(&self) -> f64 {
        (self.warm + self.window).as_s_f64()
    }
}

/// Cost and results of a run.
#[derive(Clone, Debug)]
pub(super) struct Outcome {
    pub(super) hops: u64,
    pub(super) cpu_s: f64,
    pub(super) wall_s: f64,
    /// Goodput of each flow in bits per second, within `window`.
    pub(super) goodput_bps: Vec<f64>,
}

impl Outcome {
    pub(super) fn hops_per_cpu_second(&self) -> f64 {
        self.hops as f64 / self.cpu_s.max(1e-9)
    }

    pub(super) fn goodput(&self) -> f64 {
        self.goodput_bps.iter().sum()
    }

    /// Returns Jain's fairness index: 1 if all flows have the same goodput.
    pub(super) fn fairness(&self) -> f64 {
        let sum = self.goodput();
        let squares: f64 = self.goodput_bps.iter().map(|rate| rate * rate).sum();
        sum * sum / (squares * self.goodput_bps.len() as f64).max(1e-9)
    }
}

/// Time in ns between the starts of two flows. If all started simultaneously, a drop-tail queue
/// would disadvantage the last one.
const STAGGER_NS: i64 = 370_000;

/// Returns a link with the overhead of ns-3's point-to-point links, 2 bytes of PPP per packet.
pub(super) fn ppp(rate_bps: u64, delay: Duration) -> LinkConfig {
    LinkConfig {
        overhead_bytes: 2,
        queue: QueueConfig::DropTail { packets: 1_000 },
        ..LinkConfig::new(rate_bps, delay)
    }
}

/// Builds the dumbbell and its flows.
pub(super) fn build(shape: &Shape) -> Result<(World, Vec<FlowId>), BenchError> {
    let mut network = NetworkBuilder::new(1);
    let access = ppp(1_000_000_000, Duration::from_ms(1));
    let bottleneck = ppp(10_000_000_000, Duration::from_us(1));
    let ends = dumbbell(&mut network, "", shape.hosts, &access, &bottleneck);
    let mut world = network.build().map_err(refused)?;
    let flows = (0..shape.flows).map(|flow| {
        let host = (flow % shape.hosts) as usize;
        let config = TcpConfig {
            start: Instant::from_ns(i64::from(flow) * STAGGER_NS),
            ..TcpConfig::default()
        };
        world.add_tcp(ends.left[host], ends.right[host], config)
    });
    let flows = flows.collect::<Result<Vec<_>, _>>().map_err(refused)?;
    Ok((world, flows))
}

pub(super) fn refused(error: BuildError) -> BenchError {
    BenchError::Worker(format!("building the network: {error}"))
}

/// Runs the dumbbell on this thread as fast as possible.
pub(super) fn run(shape: &Shape) -> Result<Outcome, BenchError> {
    let (world, flows) = build(shape)?;
    let mut engine: Engine<World> = Engine::new(world);
    engine.with(|world, agenda| world.start(agenda));
    let bytes = |engine: &Engine<World>| -> Vec<u64> {
        let stats = flows.iter().map(|flow| engine.model.tcp(*flow));
        stats.map(|stats| stats.delivered_bytes).collect()
    };
    let warm: Instant<Virtual> = Instant::ZERO + shape.warm;
    let (wall, cpu) = (time::Instant::now(), thread_cpu_s());
    engine.run_until(warm, u64::MAX);
    let before = bytes(&engine);
    engine.run_until(warm + shape.window, u64::MAX);
    let (cpu_s, wall_s) = (thread_cpu_s() - cpu, wall.elapsed().as_secs_f64());
    let window_s = shape.window.as_s_f64();
    let after = bytes(&engine);
    let gained = before.iter().zip(&after).map(|(from, to)| to - from);
    Ok(Outcome {
        hops: engine.model.counters().hops,
        cpu_s,
        wall_s,
        goodput_bps: gained.map(|bytes| bytes as f64 * 8.0 / window_s).collect(),
    })
}

/// Gives this thread a higher priority than ordinary threads, if permitted, so that other load of
/// the machine is not measured. Only for threads that end soon.
pub(super) fn go_first() {
    // Without the permission, the thread keeps its scheduling policy.
    let _ = set_policy(SchedulingPolicy::First(1));
}

/// Restricts this thread to the n-th processor of the process, if there are so many. Otherwise the
/// kernel may leave one of two high-priority threads waiting behind the other, if the second
/// processor was busy at the wrong moment. Only for threads that end soon.
pub(super) fn own_core(number: usize) {
    if let Some(core) = allowed().get(number) {
        pin(*core);
    }
}

/// Returns the CPU time of this thread, in seconds.
pub(super) fn thread_cpu_s() -> f64 {
    thread_time().as_s_f64()
}
