//! Links: times that are exact to the nanosecond, and frequencies of impairments.

use crate::common::{GBIT, MBIT, bare, ms, pair, run};
use timeloom_net::{
    Impairment, LinkConfig, NetworkBuilder, PacketSize, Pattern, TrafficConfig, TrafficStats,
};
use timeloom_time::{Duration, Instant};

/// Sends packets of `sizes`, all at once, over one link between two hosts.
fn burst(link: LinkConfig, sizes: &[u16]) -> TrafficStats {
    let mut network = NetworkBuilder::new(1);
    let (a, b) = (network.host("a"), network.host("b"));
    network.connect(a, b, link);
    let mut world = network.build().unwrap();
    let packets = sizes.iter().map(|size| (Duration::ZERO, *size)).collect();
    let pattern = Pattern::Trace {
        packets,
        every: None,
    };
    let config = TrafficConfig::udp(pattern, PacketSize::Fixed(0));
    let source = world.add_traffic(a, b, config).unwrap();
    run(world, ms(60_000)).model.traffic(source)
}

#[test]
fn serialisation_is_exact_to_the_nanosecond() {
    // These include rates at which packets do not take a whole number of ns.
    for rate in [
        9_600,
        3 * MBIT,
        100 * MBIT,
        GBIT,
        10 * GBIT,
        25 * GBIT,
        7_777_777,
    ] {
        let delay = Duration::from_us(17);
        for sizes in [vec![1500], vec![64; 100], vec![1500, 41, 333, 28, 999]] {
            let stats = burst(bare(rate, delay, 1_000), &sizes);
            let mut bytes = 0;
            let mut sum = 0;
            for size in &sizes {
                bytes += u128::from(*size);
                let end = (bytes * 8_000_000_000).div_ceil(u128::from(rate)) as u64;
                sum += end + delay.as_ns() as u64;
            }
            assert_eq!(
                stats.delay_sum_ns,
                sum,
                "{rate} bit/s, {} packets",
                sizes.len()
            );
        }
    }
}

#[test]
fn a_million_packets_back_to_back_add_up_no_roundings() {
    // 64 bytes at 40 Gbit/s take 12.8 ns; rounding each time would add up to 200 µs.
    let stats = burst(
        bare(40 * GBIT, Duration::ZERO, u32::MAX),
        &vec![64; 1_000_000],
    );
    assert_eq!(stats.delay_max_ns, 12_800_000);
}

#[test]
fn overhead_takes_its_time_on_the_wire() {
    let link = LinkConfig::new(GBIT, Duration::from_ms(1));
    assert_eq!(burst(link, &[1500]).delay_sum_ns, 1538 * 8 + 1_000_000);
}

#[test]
fn drop_tail_keeps_one_in_service_and_its_limit() {
    let stats = burst(bare(GBIT, Duration::ZERO, 10), &[1000; 30]);
    assert_eq!(stats.received, 11);
}

/// Sends 50,000 packets of 1000 bytes at 400 Mbit/s over a 1 Gbit/s link with this impairment.
fn impaired(impairment: Impairment) -> TrafficStats {
    let fast = bare(10 * GBIT, Duration::ZERO, 100);
    let wire = bare(GBIT, Duration::from_us(500), 1_000).with_impairment(impairment);
    let (network, [a, _, b]) = pair(9, fast, wire);
    let mut world = network.build().unwrap();
    let pattern = Pattern::Constant {
        rate_bps: 400 * MBIT,
    };
    let config = TrafficConfig {
        stop: ms(1_000),
        ..TrafficConfig::udp(pattern, PacketSize::Fixed(1000))
    };
    let source = world.add_traffic(a, b, config).unwrap();
    let engine = run(world, ms(1_100));
    assert_eq!(engine.model.packets_alive(), 0);
    engine.model.traffic(source)
}

#[test]
fn loss_and_duplication_come_as_often_as_asked() {
    let stats = impaired(Impairment::loss(0.1));
    // 336 is 5 standard deviations of a binomial distribution with n = 50,000.
    assert!(stats.received.abs_diff(45_000) < 336, "{stats:?}");
    let stats = impaired(Impairment {
        duplication: 0.1,
        ..Impairment::default()
    });
    assert!(stats.received.abs_diff(55_000) < 336, "{stats:?}");
    assert_eq!(stats.reordered, 0);
}

#[test]
fn jitter_is_uniform_and_reorders_only_when_told() {
    let jitter = Duration::from_us(100);
    let base_ns = 500_000 + 8_000 + 800;
    let loose = impaired(Impairment {
        jitter,
        jitter_reorders: true,
        ..Impairment::default()
    });
    let mean = loose.delay_sum_ns / loose.received;
    assert!(mean.abs_diff(base_ns + 50_000) < 700, "{mean}");
    assert!(loose.delay_max_ns <= base_ns + 100_000);
    assert!(loose.reordered > 10_000);
    let ordered = impaired(Impairment {
        jitter,
        ..Impairment::default()
    });
    assert_eq!((ordered.reordered, ordered.received), (0, 50_000));
}

#[test]
fn reordering_lets_some_overtake() {
    let stats = impaired(Impairment {
        reordering: 0.01,
        ..Impairment::default()
    });
    // 500 µs correspond to 25 packets of 20 µs each. A packet is overtaken if one of the next 25
    // skips the delay and the packet itself does not.
    let expected = 50_000.0 * (1.0 - 0.99f64.powi(25)) * 0.99;
    let ratio = stats.reordered as f64 / expected;
    assert!((0.87..1.13).contains(&ratio), "{ratio}: {stats:?}");
    assert_eq!(stats.received, 50_000);
}

#[test]
fn a_link_that_is_down_drops_and_counts() {
    let link = bare(GBIT, Duration::from_ms(1), 10);
    let (network, [a, router, b]) = pair(1, link.clone(), link);
    let port = network.port(router, 1).unwrap();
    let mut world = network.build().unwrap();
    let pattern = Pattern::Constant { rate_bps: 8 * MBIT };
    let config = TrafficConfig::udp(pattern, PacketSize::Fixed(1000));
    let source = world.add_traffic(a, b, config).unwrap();
    let mut engine = run(world, ms(100));
    let before = engine.model.traffic(source).received;
    engine.model.set_reachable(port, false);
    engine.run_until(ms(200), u64::MAX);
    let during = engine.model.traffic(source).received;
    assert!(during - before <= 2, "what was in flight arrives");
    assert!(engine.model.link(port).dropped.abs_diff(100) <= 2);
    engine.model.set_reachable(port, true);
    engine.run_until(ms(300), u64::MAX);
    assert!((engine.model.traffic(source).received - during).abs_diff(100) <= 2);
    assert!(engine.now() == Instant::from_ns(300_000_000));
}
