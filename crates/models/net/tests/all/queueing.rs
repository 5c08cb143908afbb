//! Comparisons of queues with theory and with their specifications.

use crate::common::{GBIT, MBIT, bare, ms, pair, run};
use timeloom_net::{
    LinkConfig, LinkStats, PacketSize, Pattern, PortId, QueueConfig, RedConfig, TcpConfig,
    TrafficConfig,
};
use timeloom_time::Duration;

/// Sends Poisson traffic with this load over a 100 Mbit/s link. Returns the link's statistics over
/// 40 s; at full load, there are about 12,500 packets of 1000 bytes per second.
fn poisson(load: f64, size: PacketSize, seed: u64) -> LinkStats {
    let fast = bare(1_000 * GBIT, Duration::ZERO, u32::MAX);
    let slow = bare(100 * MBIT, Duration::ZERO, u32::MAX);
    let (network, [a, router, b]) = pair(seed, fast, slow);
    let port = network.port(router, 1).unwrap();
    let mut world = network.build().unwrap();
    let mean = Duration::from_ns((80_000.0 / load) as i64);
    let config = TrafficConfig::udp(Pattern::Poisson { mean }, size);
    world.add_traffic(a, b, config).unwrap();
    run(world, ms(40_000)).model.link(port)
}

/// Returns the mean number of waiting packets by Little's law.
fn mean_waiting(stats: LinkStats) -> f64 {
    stats.waited_ns as f64 / 40e9
}

#[test]
fn m_d_1_waits_as_long_as_theory_says() {
    for (load, tolerance) in [(0.3, 0.03), (0.5, 0.03), (0.8, 0.05), (0.9, 0.08)] {
        let got = mean_waiting(poisson(load, PacketSize::Fixed(1000), 11));
        // Pollaczek–Khinchine formula for constant service times.
        let expected = load * load / (2.0 * (1.0 - load));
        let error = (got / expected - 1.0).abs();
        assert!(error < tolerance, "load {load}: {got} against {expected}");
    }
}

#[test]
fn m_m_1_waits_as_long_as_theory_says() {
    for (load, tolerance) in [(0.3, 0.04), (0.5, 0.04), (0.8, 0.06)] {
        let stats = poisson(load, PacketSize::Exponential(1000.0), 12);
        // Sizes are whole bytes and at least 28, so the actual load is used.
        let load = stats.bytes as f64 * 80.0 / 40e9;
        let got = mean_waiting(stats);
        let expected = load * load / (1.0 - load);
        let error = (got / expected - 1.0).abs();
        assert!(error < tolerance, "load {load}: {got} against {expected}");
    }
}

/// Runs four TCP flows from one host through a 100 Mbit/s link with this configuration for 20 s.
/// Returns the goodput in Mbit/s and the mean waiting time at the link in ms.
fn congested(link: LinkConfig) -> (f64, f64) {
    let (network, [a, router, b]) = pair(3, bare(GBIT, Duration::from_ms(10), 5_000), link);
    let port: PortId = network.port(router, 1).unwrap();
    let mut world = network.build().unwrap();
    let flows = [0; 4].map(|_| world.add_tcp(a, b, TcpConfig::default()).unwrap());
    let engine = run(world, ms(20_000));
    let bytes: u64 = flows
        .iter()
        .map(|flow| engine.model.tcp(*flow).delivered_bytes)
        .sum();
    let stats = engine.model.link(port);
    let wait_ms = stats.waited_ns as f64 / stats.packets as f64 / 1e6;
    (bytes as f64 * 8.0 / 20e6, wait_ms)
}

#[test]
fn active_queues_keep_the_wait_short_at_full_rate() {
    let link = bare(100 * MBIT, Duration::from_ms(10), 1_000);
    let (rate, wait_ms) = congested(link.clone());
    assert!(rate > 92.0 && wait_ms > 40.0, "drop-tail: {rate} {wait_ms}");

    let codel = QueueConfig::CoDel {
        target: Duration::from_ms(5),
        interval: Duration::from_ms(100),
        packets: 1_000,
        ecn: false,
    };
    let (rate, wait_ms) = congested(link.clone().with_queue(codel));
    assert!(rate > 80.0, "CoDel: {rate} Mbit/s");
    assert!(wait_ms < 10.0, "CoDel: {wait_ms} ms, the target is 5");

    let red = QueueConfig::Red(RedConfig {
        min_threshold: 20.0,
        max_threshold: 100.0,
        max_probability: 0.05,
        weight: 0.002,
        packets: 1_000,
        ecn: false,
    });
    let (rate, wait_ms) = congested(link.with_queue(red));
    assert!(rate > 80.0, "RED: {rate} Mbit/s");
    // 100 packets of 1500 bytes take 12 ms.
    assert!(wait_ms < 13.0, "RED: {wait_ms} ms");
}

#[test]
fn priority_spares_the_precedence_from_the_flood() {
    let slow =
        bare(10 * MBIT, Duration::ZERO, 100).with_queue(QueueConfig::Priority { packets: 100 });
    let (network, [a, _, b]) = pair(5, bare(GBIT, Duration::ZERO, 1_000), slow);
    let mut world = network.build().unwrap();
    let constant =
        |rate_bps| TrafficConfig::udp(Pattern::Constant { rate_bps }, PacketSize::Fixed(1250));
    let flood = world.add_traffic(a, b, constant(20 * MBIT)).unwrap();
    let urgent = TrafficConfig {
        tos: 0xb8, // expedited forwarding, RFC 3246
        ..constant(MBIT)
    };
    let urgent = world.add_traffic(a, b, urgent).unwrap();
    let engine = run(world, ms(5_000));
    let (flood, urgent) = (engine.model.traffic(flood), engine.model.traffic(urgent));
    // Greatest delay: one packet of the flood in transmission, the packet's own transmission, and
    // the first link.
    assert!(urgent.delay_max_ns <= 2 * 1_000_000 + 25_000, "{urgent:?}");
    assert!(urgent.received >= urgent.sent - 1);
    let share = flood.received_bytes as f64 * 8.0 / 5.0 / 9e6;
    assert!(
        (share - 1.0).abs() < 0.02,
        "the rest is the flood's: {share}"
    );
}
