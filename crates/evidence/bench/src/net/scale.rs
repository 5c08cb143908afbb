//! Growth of the engine's build time, memory and speed with the size of the network.

use std::time;

use timeloom_engine::Engine;
use timeloom_net::topology::dumbbell;
use timeloom_net::{LinkConfig, NetworkBuilder, Node, QueueConfig, TcpConfig, World};
use timeloom_time::{Duration, Instant};

use super::BENCH;
use super::model::{refused, thread_cpu_s};
use crate::Options;
use crate::error::BenchError;
use crate::figure::{Better, Figure};

pub(super) fn run(options: &Options, figure: &mut dyn FnMut(Figure)) -> Result<(), BenchError> {
    let before = resident();
    let simulated = Duration::from_ms(options.pick(100, 500));
    let large = measure(10_000, 10_000, simulated)?;
    let bytes = resident().saturating_sub(before) as f64;
    figure(
        Figure::new(BENCH, "hosts_10000_flows_10000_bytes", "bytes", &[bytes])
            .bar(2.0 * 1024.0 * 1024.0 * 1024.0)
            .with("simulated_s", simulated.as_s_f64())
            .with("counts", "growth of this process's resident memory"),
    );
    drop(large);

    let rounds = options.pick(3, 5);
    let built = (0..rounds).map(|_| build_10_000_links());
    let built = built.collect::<Result<Vec<_>, _>>()?;
    figure(Figure::new(BENCH, "build_10000_links_ns", "ns", &built).bar(2e9));

    // Sizes alternate, so that a machine that becomes slower affects all of them.
    let ports = [16, 32, 64, 128];
    let mut speeds = vec![Vec::new(); ports.len()];
    for round in 0..rounds + 1 {
        for (ports, speeds) in ports.iter().zip(&mut speeds) {
            let run = measure(ports * 2, 16, Duration::from_ms(options.pick(200, 500)))?;
            // The first round is not counted, because caches are cold.
            if round > 0 {
                speeds.push(run.hops as f64 / run.cpu_s);
            }
        }
    }
    let flat: Vec<f64> = speeds[3]
        .iter()
        .zip(&speeds[0])
        .map(|(a, b)| a / b)
        .collect();
    let mut metric = Figure::new(BENCH, "ports_128_over_16", "ratio", &flat).bar(0.9);
    metric.better = Better::Higher;
    for (ports, speeds) in ports.iter().zip(&speeds) {
        let key = format!("hops_per_cpu_second_{ports}");
        metric = metric.with(&key, crate::median(speeds));
    }
    figure(metric);

    for hosts in [10, 100, 1_000, 10_000] {
        let simulated = Duration::from_ms(options.pick(100, 500));
        let runs = (0..rounds).map(|_| measure(hosts, hosts, simulated));
        let runs = runs.collect::<Result<Vec<_>, _>>()?;
        let over = runs.iter().map(|run| run.wall_s / simulated.as_s_f64());
        let over: Vec<f64> = over.collect();
        let speed = runs.iter().map(|run| run.hops as f64 / run.cpu_s);
        let speed: Vec<f64> = speed.collect();
        let metric = format!("wall_over_simulated_hosts_{hosts}");
        figure(
            Figure::new(BENCH, metric, "ratio", &over)
                .with("flows", hosts)
                .with("hops_per_cpu_second", crate::median(&speed)),
        );
    }
    Ok(())
}

struct Run {
    hops: u64,
    cpu_s: f64,
    wall_s: f64,
    /// Keeps the engine in memory until its size has been measured.
    _engine: Engine<World>,
}

fn link(rate_bps: u64, delay: Duration) -> LinkConfig {
    LinkConfig::new(rate_bps, delay).with_queue(QueueConfig::DropTail { packets: 200 })
}

fn network(hosts: u32) -> (NetworkBuilder, Vec<(Node, Node)>) {
    let mut network = NetworkBuilder::new(1);
    let access = link(1_000_000_000, Duration::from_ms(1));
    let bottleneck = link(10_000_000_000, Duration::from_us(1));
    let ends = dumbbell(&mut network, "", hosts / 2, &access, &bottleneck);
    (network, ends.left.into_iter().zip(ends.right).collect())
}

fn build_10_000_links() -> Result<f64, BenchError> {
    let start = time::Instant::now();
    let (network, _) = network(10_000);
    let world = network.build().map_err(refused)?;
    let took = start.elapsed().as_nanos() as f64;
    drop(world);
    Ok(took)
}

/// Runs a dumbbell with so many hosts and flows for the given simulated time.
fn measure(hosts: u32, flows: u32, simulated: Duration) -> Result<Run, BenchError> {
    let (network, pairs) = network(hosts);
    let mut world = network.build().map_err(refused)?;
    for index in 0..flows {
        let (from, to) = pairs[index as usize % pairs.len()];
        // Starts are spread over 10 ms, so that flows do not start at the same time.
        let begin = Duration::from_ns(10_000_000 / i64::from(flows) * i64::from(index));
        let config = TcpConfig {
            start: Instant::ZERO + begin,
            receive_window: 512,
            ..TcpConfig::default()
        };
        world.add_tcp(from, to, config).map_err(refused)?;
    }
    let mut engine: Engine<World> = Engine::new(world);
    engine.with(|world, agenda| world.start(agenda));
    let (wall, cpu) = (time::Instant::now(), thread_cpu_s());
    engine.run_until(Instant::ZERO + simulated, u64::MAX);
    let (wall_s, cpu_s) = (wall.elapsed().as_secs_f64(), thread_cpu_s() - cpu);
    Ok(Run {
        hops: engine.model.counters().hops,
        cpu_s,
        wall_s,
        _engine: engine,
    })
}

/// Returns the resident memory of this process, in bytes.
fn resident() -> u64 {
    let text = std::fs::read_to_string("/proc/self/statm").unwrap_or_default();
    let pages = text.split_whitespace().nth(1);
    pages.and_then(|word| word.parse::<u64>().ok()).unwrap_or(0) * 4096
}
