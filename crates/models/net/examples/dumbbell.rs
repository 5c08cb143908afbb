//! The dumbbell network of the paper's Figure 6, simulated as fast as possible.
//!
//! `cargo run --release -p timeloom-net --example dumbbell -- [--flows 1,16,64] [--hosts 64]
//! [--seconds 2] [--warm 1] [--buffer 1000] [--control newreno] [--queue wheel]`
//!
//! Prints one JSON line per number of flows: packet hops per CPU second, wall and CPU time per
//! simulated time, goodput per flow after the warm-up, and Jain's fairness index.

#[path = "../../engine/benches/queues/calendar.rs"]
mod calendar;
#[path = "../../engine/benches/queues/ladder.rs"]
mod ladder;

use std::time;

use calendar::Calendar;
use ladder::Ladder;
use timeloom_engine::Engine;
use timeloom_engine::queue::{EventQueue, Heap4, Wheel};
use timeloom_net::topology::dumbbell;
use timeloom_net::{Control, LinkConfig, NetworkBuilder, QueueConfig, TcpConfig, World};
use timeloom_time::{Duration, Instant};

#[derive(Clone)]
struct Args {
    flows: Vec<u32>,
    hosts: u32,
    seconds: f64,
    warm: f64,
    buffer: u32,
    control: Control,
    queue: String,
}

fn args() -> Result<Args, Box<dyn std::error::Error>> {
    let mut args = Args {
        flows: vec![1, 2, 4, 8, 16, 32, 64],
        hosts: 64,
        seconds: 2.0,
        warm: 1.0,
        buffer: 1_000,
        control: Control::NewReno,
        queue: "wheel".to_owned(),
    };
    let mut words = std::env::args().skip(1);
    while let Some(word) = words.next() {
        let value = words
            .next()
            .ok_or_else(|| format!("{word} needs a value"))?;
        match word.as_str() {
            "--flows" => args.flows = value.split(',').map(str::parse).collect::<Result<_, _>>()?,
            "--hosts" => args.hosts = value.parse()?,
            "--seconds" => args.seconds = value.parse()?,
            "--warm" => args.warm = value.parse()?,
            "--buffer" => args.buffer = value.parse()?,
            "--control" if value == "cubic" => args.control = Control::Cubic,
            "--control" if value == "cubic-8312" => args.control = Control::Cubic8312,
            "--control" => args.control = Control::NewReno,
            "--queue" => args.queue = value,
            _ => return Err(format!("unknown option {word}").into()),
        }
    }
    Ok(args)
}

/// Returns the CPU time of this thread in seconds, from the scheduler's statistics.
fn cpu_s() -> f64 {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
    let first = text.split_whitespace().next();
    first
        .and_then(|word| word.parse::<f64>().ok())
        .unwrap_or(0.0)
        / 1e9
}

fn run<Q: EventQueue>(args: &Args, flows: u32) -> Result<(), Box<dyn std::error::Error>> {
    let building = time::Instant::now();
    let mut network = NetworkBuilder::new(1);
    // As in ns-3's point-to-point links, each packet has 2 bytes of PPP.
    let ppp = |rate, delay, packets| LinkConfig {
        overhead_bytes: 2,
        queue: QueueConfig::DropTail { packets },
        ..LinkConfig::new(rate, delay)
    };
    let access = ppp(1_000_000_000, Duration::from_ms(1), args.buffer);
    let bottleneck = ppp(10_000_000_000, Duration::from_us(1), args.buffer);
    let ends = dumbbell(&mut network, "", args.hosts, &access, &bottleneck);
    let mut world = network.build()?;
    let mut ids = Vec::new();
    for flow in 0..flows {
        let host = (flow % args.hosts) as usize;
        let config = TcpConfig {
            control: args.control,
            ..TcpConfig::default()
        };
        ids.push(world.add_tcp(ends.left[host], ends.right[host], config)?);
    }
    let built_s = building.elapsed().as_secs_f64();

    let mut engine: Engine<World, Q> = Engine::new(world);
    engine.with(|world, agenda| world.start(agenda));
    let at = |seconds: f64| Instant::from_ns((seconds * 1e9) as i64);
    let (wall, cpu) = (time::Instant::now(), cpu_s());
    engine.run_until(at(args.warm), u64::MAX);
    let bytes = |engine: &Engine<World, Q>| -> Vec<u64> {
        let stats = ids.iter().map(|id| engine.model.tcp(*id));
        stats.map(|stats| stats.delivered_bytes).collect()
    };
    let before = bytes(&engine);
    engine.run_until(at(args.warm + args.seconds), u64::MAX);
    let (wall_s, cpu_used_s) = (wall.elapsed().as_secs_f64(), cpu_s() - cpu);

    let after = bytes(&engine);
    let goodput: Vec<f64> = before
        .iter()
        .zip(&after)
        .map(|(before, after)| (after - before) as f64 * 8.0 / args.seconds / 1e6)
        .collect();
    let sum: f64 = goodput.iter().sum();
    let squares: f64 = goodput.iter().map(|rate| rate * rate).sum();
    let least = goodput.iter().copied().fold(f64::INFINITY, f64::min);
    let most = goodput.iter().copied().fold(0.0, f64::max);
    let hops = engine.model.counters().hops;
    let simulated = args.warm + args.seconds;
    let stats = ids.iter().map(|id| engine.model.tcp(*id));
    let retransmitted: u64 = stats.map(|stats| stats.retransmitted).sum();
    let stats = ids.iter().map(|id| engine.model.tcp(*id));
    let timeouts: u64 = stats.map(|stats| stats.timeouts).sum();
    println!(
        "{{\"bench\":\"dumbbell\",\"queue\":\"{}\",\"control\":\"{:?}\",\"hosts\":{},\"flows\":{flows},\
         \"simulated_s\":{simulated},\"hops\":{hops},\"events\":{},\"cpu_s\":{cpu_used_s:.3},\
         \"hops_per_cpu_second\":{:.0},\"wall_over_simulated\":{:.3},\"cpu_over_simulated\":{:.3},\
         \"goodput_mbps\":{sum:.1},\"per_flow_mbps\":{:.2},\"least_mbps\":{least:.2},\"most_mbps\":{most:.2},\
         \"jain\":{:.4},\"retransmitted\":{retransmitted},\"timeouts\":{timeouts},\"dropped\":{},\"built_s\":{built_s:.4}}}",
        args.queue,
        args.control,
        args.hosts * 2,
        engine.handled(),
        hops as f64 / cpu_used_s,
        wall_s / simulated,
        cpu_used_s / simulated,
        sum / f64::from(flows),
        sum * sum / (squares * f64::from(flows)),
        engine.model.link(ends.bottleneck).dropped,
    );
    Ok(())
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let args = args()?;
    for flows in args.flows.clone() {
        match args.queue.as_str() {
            "heap4" => run::<Heap4>(&args, flows)?,
            "calendar" => run::<Calendar>(&args, flows)?,
            "ladder" => run::<Ladder>(&args, flows)?,
            _ => run::<Wheel>(&args, flows)?,
        }
    }
    Ok(())
}
