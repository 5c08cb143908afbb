//! Background traffic as fluid, compared with the same traffic as packets: its cost, and its effect
//! on a TCP flow of packets and on a few probes.

use std::time;

use timeloom_engine::Engine;
use timeloom_net::topology::dumbbell;
use timeloom_net::{
    BuildError, Control, FlowId, FluidConfig, FluidPattern, NetworkBuilder, Node, PacketSize,
    Pattern, QueueConfig, TcpConfig, TrafficConfig, TrafficSourceId, World,
};
use timeloom_time::{Duration, Instant};

use super::BENCH;
use super::model::{ppp, refused, thread_cpu_s};
use crate::Options;
use crate::error::BenchError;
use crate::figure::Figure;

const GBIT: u64 = 1_000_000_000;
/// Rate of each flow with a fixed mean rate, in bit/s. Together, the flows use 60 % of the link.
const RATE_BPS: u64 = 60_000_000;

#[derive(Clone, Copy)]
enum Kind {
    Poisson,
    OnOff,
    Tcp(Control),
}

const KINDS: [(&str, Kind); 4] = [
    ("poisson", Kind::Poisson),
    ("on_off", Kind::OnOff),
    ("reno", Kind::Tcp(Control::NewReno)),
    ("cubic", Kind::Tcp(Control::Cubic)),
];

pub(super) fn run(options: &Options, figure: &mut dyn FnMut(Figure)) -> Result<(), BenchError> {
    let warm = Duration::from_s(options.pick(2, 3));
    let window = Duration::from_s(options.pick(3, 10));
    for (name, kind) in KINDS {
        let (mut costs, mut walls, mut goodputs, mut delays) = (vec![], vec![], vec![], vec![]);
        for seed in 0..options.pick(3, 5) {
            let packets = foreground(kind, false, seed, warm, window)?;
            let fluid = foreground(kind, true, seed, warm, window)?;
            costs.push(fluid.wall_s / packets.wall_s);
            walls.push(fluid.wall_s / (warm + window).as_s_f64());
            goodputs.push(fluid.goodput_bps / packets.goodput_bps);
            delays.push(fluid.delay_s / packets.delay_s);
        }
        let counts = "100 flows and a TCP of packets on 10 Gbit/s, 12 ms each way";
        for (metric, samples) in [
            ("wall_over_packets", &costs),
            ("wall_over_simulated", &walls),
            ("goodput_over_packets", &goodputs),
            ("delay_over_packets", &delays),
        ] {
            let figure_of = Figure::new(BENCH, format!("fluid_{name}_{metric}"), "ratio", samples);
            figure(figure_of.with("counts", counts));
        }
    }
    for rate_bps in [100_000, 1_000_000, 9_000_000] {
        let rounds = (0..options.pick(3, 5)).map(|_| many(rate_bps));
        let samples = rounds.collect::<Result<Vec<_>, _>>()?;
        let metric = format!(
            "fluid_10000_flows_{}_gbps_cpu_over_simulated",
            rate_bps / 100_000
        );
        figure(
            Figure::new(BENCH, metric, "ratio", &samples)
                .with("counts", "10,000 Poisson flows of 3 hops, a step of 1 ms"),
        );
    }
    Ok(())
}

struct Foreground {
    wall_s: f64,
    goodput_bps: f64,
    delay_s: f64,
}

/// Measures the foreground traffic and the run time.
fn foreground(
    kind: Kind,
    fluid: bool,
    seed: u64,
    warm: Duration,
    window: Duration,
) -> Result<Foreground, BenchError> {
    let (world, flow, probe) = build(kind, fluid, seed).map_err(refused)?;
    let mut engine: Engine<World> = Engine::new(world);
    engine.with(|world, agenda| world.start(agenda));
    let began = time::Instant::now();
    engine.run_until(Instant::ZERO + warm, u64::MAX);
    let look = |world: &World| (world.tcp(flow).delivered_bytes, world.traffic(probe));
    let before = look(&engine.model);
    engine.run_until(Instant::ZERO + warm + window, u64::MAX);
    let wall_s = began.elapsed().as_secs_f64();
    let after = look(&engine.model);
    let delay_ns = after.1.delay_sum_ns - before.1.delay_sum_ns;
    let received = after.1.received - before.1.received;
    Ok(Foreground {
        wall_s,
        goodput_bps: (after.0 - before.0) as f64 * 8.0 / window.as_s_f64(),
        delay_s: delay_ns as f64 / received.max(1) as f64 / 1e9,
    })
}

fn build(
    kind: Kind,
    fluid: bool,
    seed: u64,
) -> Result<(World, FlowId, TrafficSourceId), BuildError> {
    const FLOWS: u32 = 100;
    let mut network = NetworkBuilder::new(seed);
    let access = ppp(10 * GBIT, Duration::from_ms(1));
    let queue = QueueConfig::DropTail { packets: 4_000 };
    let bottleneck = ppp(10 * GBIT, Duration::from_ms(10)).with_queue(queue);
    let ends = dumbbell(&mut network, "", FLOWS + 1, &access, &bottleneck);
    let mut world = network.build()?;
    let mut pairs = ends.left.iter().copied().zip(ends.right.iter().copied());
    let (from, to) = pairs.next().expect("101 pairs");
    let flow = world.add_tcp(from, to, TcpConfig::default())?;
    let mean = Duration::from_ms(2);
    let probe = TrafficConfig::udp(Pattern::Poisson { mean }, PacketSize::Fixed(50));
    let probe = world.add_traffic(from, to, probe)?;
    for (index, (from, to)) in pairs.enumerate() {
        let start = Instant::ZERO + Duration::from_ms(7 * index as i64);
        background(&mut world, (from, to), kind, fluid, start)?;
    }
    Ok((world, flow, probe))
}

fn background(
    world: &mut World,
    (from, to): (Node, Node),
    kind: Kind,
    fluid: bool,
    start: Instant<timeloom_time::Virtual>,
) -> Result<(), BuildError> {
    let (mean_on, mean_off) = (Duration::from_ms(100), Duration::from_ms(100));
    let burst_bps = 2 * RATE_BPS;
    if fluid {
        let mut config = match kind {
            Kind::Poisson => FluidConfig::new(FluidPattern::Poisson { rate_bps: RATE_BPS }),
            Kind::OnOff => FluidConfig::new(FluidPattern::OnOff {
                rate_bps: burst_bps,
                mean_on,
                mean_off,
            }),
            Kind::Tcp(control) => FluidConfig::tcp(control),
        };
        config.start = start;
        return world.add_fluid(from, to, config).map(drop);
    }
    let pattern = match kind {
        Kind::Poisson => Pattern::Poisson {
            mean: Duration::from_ns(8_000 * 1_000_000_000 / RATE_BPS as i64),
        },
        Kind::OnOff => Pattern::OnOff {
            rate_bps: burst_bps,
            mean_on,
            mean_off,
        },
        Kind::Tcp(control) => {
            let config = TcpConfig {
                control,
                start,
                ..TcpConfig::default()
            };
            return world.add_tcp(from, to, config).map(drop);
        }
    };
    let mut config = TrafficConfig::udp(pattern, PacketSize::Fixed(1_000));
    config.start = start;
    world.add_traffic(from, to, config).map(drop)
}

/// Runs 10,000 flows with this rate; returns processor time per simulated time.
fn many(rate_bps: u64) -> Result<f64, BenchError> {
    let mut network = NetworkBuilder::new(1);
    let link = ppp(100 * GBIT, Duration::from_ms(1));
    let ends = dumbbell(&mut network, "", 100, &link, &link);
    let mut world = network.build().map_err(refused)?;
    for index in 0..10_000 {
        let (from, to) = (ends.left[index % 100], ends.right[index % 100]);
        let config = FluidConfig::new(FluidPattern::Poisson { rate_bps });
        world.add_fluid(from, to, config).map_err(refused)?;
    }
    let mut engine: Engine<World> = Engine::new(world);
    engine.with(|world, agenda| world.start(agenda));
    engine.run_until(Instant::ZERO + Duration::from_ms(100), u64::MAX);
    let began = thread_cpu_s();
    engine.run_until(Instant::ZERO + Duration::from_ms(600), u64::MAX);
    Ok((thread_cpu_s() - began) / 0.5)
}
