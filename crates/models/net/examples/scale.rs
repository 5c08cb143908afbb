//! How building, memory and speed go with size.
//!
//! `cargo run --release -p timeloom-net --example scale`
//!
//! Prints JSON lines: the time to build 10,000 links, resident bytes per host
//! and per flow, and hops per CPU second from 10 to 10,000 hosts (as many TCP
//! flows, in a fat tree or on a dumbbell) and from 16 to 128 ports on a router.

use std::time;

use timeloom_engine::Engine;
use timeloom_net::topology::{dumbbell, fat_tree};
use timeloom_net::{LinkConfig, NetworkBuilder, Node, QueueConfig, TcpConfig, World};
use timeloom_time::{Duration, Instant};

type Failure = Box<dyn std::error::Error>;

/// CPU time of this thread in seconds, from the scheduler.
fn cpu_s() -> f64 {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
    let first = text.split_whitespace().next();
    first
        .and_then(|word| word.parse::<f64>().ok())
        .unwrap_or(0.0)
        / 1e9
}

/// Resident memory of this process in bytes.
fn resident() -> u64 {
    let text = std::fs::read_to_string("/proc/self/statm").unwrap_or_default();
    let pages = text.split_whitespace().nth(1);
    pages.and_then(|word| word.parse::<u64>().ok()).unwrap_or(0) * 4096
}

fn link(rate_bps: u64, delay: Duration) -> LinkConfig {
    LinkConfig::new(rate_bps, delay).with_queue(QueueConfig::DropTail { packets: 200 })
}

fn dumbbell_pairs(network: &mut NetworkBuilder, hosts: u32) -> Vec<(Node, Node)> {
    let access = link(1_000_000_000, Duration::from_ms(1));
    let bottleneck = link(10_000_000_000, Duration::from_us(1));
    let ends = dumbbell(network, "", hosts / 2, &access, &bottleneck);
    ends.left.into_iter().zip(ends.right).collect()
}

fn fat_tree_pairs(network: &mut NetworkBuilder, k: u32) -> Vec<(Node, Node)> {
    let hosts = fat_tree(network, "", k, &link(1_000_000_000, Duration::from_us(20)));
    let half = hosts.len() / 2;
    (0..hosts.len())
        .map(|index| (hosts[index], hosts[(index + half) % hosts.len()]))
        .collect()
}

/// Builds, fills and runs a network for so long; prints a line.
fn measure(
    name: &str,
    flows: usize,
    simulated: Duration,
    make: impl FnOnce(&mut NetworkBuilder) -> Vec<(Node, Node)>,
) -> Result<(), Failure> {
    let before = resident();
    let start = time::Instant::now();
    let mut network = NetworkBuilder::new(1);
    let pairs = make(&mut network);
    let mut world = network.build()?;
    let built_s = start.elapsed().as_secs_f64();
    let built_bytes = resident().saturating_sub(before);
    for index in 0..flows {
        let (from, to) = pairs[index % pairs.len()];
        // Spread over 10 ms, so that not all begin at one instant.
        let begin = Duration::from_ns(10_000_000 / flows as i64 * index as i64);
        let config = TcpConfig {
            start: Instant::ZERO + begin,
            receive_window: 512,
            ..TcpConfig::default()
        };
        world.add_tcp(from, to, config)?;
    }
    let mut engine: Engine<World> = Engine::new(world);
    engine.with(|world, agenda| world.start(agenda));
    let (wall, cpu) = (time::Instant::now(), cpu_s());
    engine.run_until(Instant::ZERO + simulated, u64::MAX);
    let (wall_s, cpu_s) = (wall.elapsed().as_secs_f64(), cpu_s() - cpu);
    let hops = engine.model.counters().hops;
    println!(
        "{{\"bench\":\"scale\",\"network\":\"{name}\",\"flows\":{flows},\"built_s\":{built_s:.4},\
         \"built_bytes\":{built_bytes},\"running_bytes\":{},\"simulated_s\":{},\"hops\":{hops},\
         \"hops_per_cpu_second\":{:.0},\"wall_over_simulated\":{:.3}}}",
        resident().saturating_sub(before),
        simulated.as_s_f64(),
        hops as f64 / cpu_s,
        wall_s / simulated.as_s_f64(),
    );
    Ok(())
}

fn main() -> Result<(), Failure> {
    let ms = Duration::from_ms;
    measure("10001 links", 1, ms(1), |n| dumbbell_pairs(n, 10_000))?;
    for ports in [16, 32, 64, 128, 16, 32, 64, 128] {
        let name = format!("dumbbell, {ports} ports on each router");
        measure(&name, 16, ms(1_000), |n| dumbbell_pairs(n, ports * 2))?;
    }
    for hosts in [10, 100, 1_000, 10_000] {
        let name = format!("dumbbell, {hosts} hosts");
        measure(&name, hosts as usize, ms(500), |n| dumbbell_pairs(n, hosts))?;
    }
    for k in [4, 8, 16, 34] {
        let hosts = k * k * k / 4;
        let name = format!("fat tree, {hosts} hosts");
        // The largest has 10 Tbit/s to carry.
        let simulated = if k > 8 { ms(4) } else { ms(50) };
        measure(&name, hosts as usize, simulated, |n| fat_tree_pairs(n, k))?;
    }
    let text = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let peak = text.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    let peak = peak.and_then(|line| line.split_whitespace().next());
    let peak = peak.and_then(|word| word.parse::<u64>().ok()).unwrap_or(0);
    println!(
        "{{\"bench\":\"scale\",\"peak_resident_bytes\":{}}}",
        peak * 1024
    );
    Ok(())
}
