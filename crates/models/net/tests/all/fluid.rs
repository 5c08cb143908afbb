//! Comparisons of fluid traffic with theory, and with the same traffic as packets.

use crate::common::{GBIT, MBIT, bare, ms, pair, run};
use timeloom_engine::Engine;
use timeloom_net::{
    BuildError, Control, FluidConfig, FluidPattern, Impairment, NetworkBuilder, PacketSize,
    Pattern, PortId, QueueConfig, RedConfig, TcpConfig, TrafficConfig, TrafficStats, World,
};
use timeloom_time::Duration;

fn constant(rate_bps: u64) -> FluidConfig {
    FluidConfig::new(FluidPattern::Constant { rate_bps })
}

fn poisson(rate_bps: u64) -> FluidConfig {
    FluidConfig::new(FluidPattern::Poisson { rate_bps })
}

/// Returns a source of small packets at random instants, which sample the state of the queue
/// (PASTA).
fn probe(mean: Duration) -> TrafficConfig {
    TrafficConfig::udp(Pattern::Poisson { mean }, PacketSize::Fixed(50))
}

fn mean_delay_us(stats: TrafficStats) -> f64 {
    stats.delay_sum_ns as f64 / stats.received as f64 / 1e3
}

/// Checks that all bytes that the flows sent are accounted for, by the flows and by the links on
/// their way.
#[track_caller]
fn assert_conserved(world: &World, flows: &[timeloom_net::FluidId], ports: &[PortId]) {
    for flow in flows {
        let stats = world.fluid(*flow);
        let found = stats.delivered_bytes + stats.lost_bytes + stats.waiting_bytes;
        let off = (found - stats.sent_bytes).abs();
        assert!(off <= 1e-6 * stats.sent_bytes + 1.0, "{stats:?}");
        assert!(stats.delivered_bytes >= 0.0 && stats.lost_bytes >= 0.0);
    }
    let waiting: f64 = flows
        .iter()
        .map(|flow| world.fluid(*flow).waiting_bytes)
        .sum();
    let lost: f64 = flows.iter().map(|flow| world.fluid(*flow).lost_bytes).sum();
    let links = ports.iter().map(|port| world.fluid_link(*port));
    let at_links: f64 = links.clone().map(|link| link.lost_bytes).sum();
    let wait_at_links: f64 = links.map(|link| link.waiting_bytes).sum();
    // The flows know the state of the queues one step later.
    let step = 0.01
        * flows
            .iter()
            .map(|flow| world.fluid(*flow).sent_bytes)
            .sum::<f64>();
    assert!((at_links - lost).abs() <= step, "{at_links} {lost}");
    assert!(
        (wait_at_links - waiting).abs() <= step,
        "{wait_at_links} {waiting}"
    );
}

#[test]
fn a_constant_rate_of_forty_per_cent_leaves_sixty_to_tcp() {
    let fast = bare(GBIT, Duration::from_ms(5), 10_000);
    let slow = bare(100 * MBIT, Duration::from_ms(5), 200);
    let (network, [a, router, b]) = pair(1, fast, slow);
    let port = network.port(router, 1).unwrap();
    let mut world = network.build().unwrap();
    let fluid = world.add_fluid(a, b, constant(40 * MBIT)).unwrap();
    let flow = world.add_tcp(a, b, TcpConfig::default()).unwrap();
    let mut engine = run(world, ms(5_000));
    let before = engine.model.tcp(flow).delivered_bytes;
    engine.run_until(ms(35_000), u64::MAX);
    let bytes = engine.model.tcp(flow).delivered_bytes - before;
    let rate = bytes as f64 * 8.0 / 30e6;
    let expected = 60.0 * 1448.0 / 1500.0;
    assert!((rate / expected - 1.0).abs() < 0.02, "{rate} Mbit/s");
    let stats = engine.model.fluid(fluid);
    // Both lose packets only while the queue is full, which is rare.
    assert!(stats.lost_bytes < 0.004 * stats.sent_bytes, "{stats:?}");
    assert!((stats.sent_bytes / (35.0 * 5e6) - 1.0).abs() < 1e-4);
    assert_conserved(&engine.model, &[fluid], &[port]);
}

#[test]
fn packets_wait_for_random_fluid_as_in_an_m_d_1_queue() {
    for (load, tolerance) in [(0.3, 0.05), (0.5, 0.05), (0.8, 0.05), (0.9, 0.08)] {
        // Probes every 0.4 ms find single packets; probes every 8 ms find a Brownian motion.
        for every_us in [400, 8_000] {
            let fast = bare(1_000 * GBIT, Duration::ZERO, u32::MAX);
            let slow = bare(100 * MBIT, Duration::ZERO, u32::MAX - 1);
            let (network, [a, router, b]) = pair(11, fast, slow);
            let port = network.port(router, 1).unwrap();
            let mut world = network.build().unwrap();
            world.set_fluid_step(Duration::from_ms(10));
            let rate = (load * 100e6) as u64;
            world.add_fluid(a, b, poisson(rate)).unwrap();
            let every = Duration::from_us(every_us);
            let source = world.add_traffic(a, b, probe(every)).unwrap();
            let seconds = every_us / 10;
            let engine = run(world, ms(seconds * 1_000));
            let link = engine.model.link(port);
            let wait_us = link.waited_ns as f64 / link.packets as f64 / 1e3;
            // Pollaczek–Khinchine formula for packets with two transmission times, 80 and 4 µs.
            let probes = 4.0 / every_us as f64;
            let work = load * 80.0 + probes * 4.0;
            let expected = work / (2.0 * (1.0 - load - probes));
            let error = wait_us / expected - 1.0;
            let received = engine.model.traffic(source).received;
            println!(
                "load {load}, every {every_us} µs: {wait_us:.1} of {expected:.1} µs, {received}"
            );
            assert!(
                error.abs() < tolerance,
                "load {load}, every {every_us} µs: {wait_us} of {expected}"
            );
        }
    }
}

#[test]
fn an_overloaded_link_loses_its_excess_and_is_full() {
    for seed in 0..3 {
        let fast = bare(GBIT, Duration::ZERO, 10_000);
        let slow = bare(100 * MBIT, Duration::ZERO, 100);
        let (network, [a, router, b]) = pair(seed, fast, slow);
        let port = network.port(router, 1).unwrap();
        let mut world = network.build().unwrap();
        let flows = [70, 50].map(|rate| world.add_fluid(a, b, constant(rate * MBIT)).unwrap());
        let source = world
            .add_traffic(a, b, probe(Duration::from_ms(2)))
            .unwrap();
        let engine = run(world, ms(60_000));
        let world = &engine.model;
        for flow in flows {
            let stats = world.fluid(flow);
            let lost = stats.lost_bytes / stats.sent_bytes;
            assert!((lost * 6.0 - 1.0).abs() < 0.02, "{lost} of a sixth");
        }
        // Of the 101 places, probes have 1 in 23, and each takes 4 instead of 80 µs to send.
        let probes = world.traffic(source);
        let delay = mean_delay_us(probes);
        assert!((delay / 7_760.0 - 1.0).abs() < 0.02, "{delay} µs");
        let lost = 1.0 - probes.received as f64 / probes.sent as f64;
        assert!((lost * 6.0 - 1.0).abs() < 0.06, "{lost} of a sixth");
        assert_conserved(world, &flows, &[port]);
    }
}

/// Results of foreground traffic on a dumbbell that it shares with background flows.
#[derive(Clone, Copy, Debug, Default)]
struct Foreground {
    goodput_mbps: f64,
    delay_us: f64,
    loss: f64,
    background_mbps: f64,
    background_loss: f64,
}

#[derive(Clone, Copy, Debug)]
enum Background {
    Poisson,
    OnOff,
    Tcp(Control),
}

/// Runs twenty background flows, a TCP flow and probes over 100 Mbit/s. The background is packets
/// or fluid.
fn dumbbell(
    seed: u64,
    queue: &QueueConfig,
    background: Background,
    fluid: bool,
    seconds: i64,
) -> Foreground {
    const FLOWS: usize = 20;
    let mut network = NetworkBuilder::new(seed);
    let access = bare(GBIT, Duration::from_ms(2), 10_000);
    let bottleneck = bare(100 * MBIT, Duration::from_ms(10), 200).with_queue(queue.clone());
    let ends =
        timeloom_net::topology::dumbbell(&mut network, "", FLOWS as u32 + 1, &access, &bottleneck);
    let mut world = network.build().unwrap();
    let flow = world
        .add_tcp(ends.left[FLOWS], ends.right[FLOWS], TcpConfig::default())
        .unwrap();
    let source = world
        .add_traffic(
            ends.left[FLOWS],
            ends.right[FLOWS],
            probe(Duration::from_ms(3)),
        )
        .unwrap();
    let rate = 3 * MBIT;
    let (mut fluids, mut tcps, mut sources) = (Vec::new(), Vec::new(), Vec::new());
    for (index, (from, to)) in ends.left.iter().zip(&ends.right).take(FLOWS).enumerate() {
        let start = ms(index as i64 * 37);
        let (mean_on, mean_off) = (Duration::from_ms(200), Duration::from_ms(200));
        if fluid {
            let mut config = match background {
                Background::Poisson => poisson(rate),
                Background::OnOff => FluidConfig::new(FluidPattern::OnOff {
                    rate_bps: 2 * rate,
                    mean_on,
                    mean_off,
                }),
                Background::Tcp(control) => FluidConfig::tcp(control),
            };
            config.start = start;
            fluids.push(world.add_fluid(*from, *to, config).unwrap());
            continue;
        }
        let pattern = match background {
            Background::Poisson => Pattern::Poisson {
                mean: Duration::from_ns(8_000_000_000_000 / rate as i64),
            },
            Background::OnOff => Pattern::OnOff {
                rate_bps: 2 * rate,
                mean_on,
                mean_off,
            },
            Background::Tcp(control) => {
                let config = TcpConfig {
                    control,
                    start,
                    ..TcpConfig::default()
                };
                tcps.push(world.add_tcp(*from, *to, config).unwrap());
                continue;
            }
        };
        let config = TrafficConfig {
            start,
            ..TrafficConfig::udp(pattern, PacketSize::Fixed(1_000))
        };
        sources.push(world.add_traffic(*from, *to, config).unwrap());
    }
    // Bytes that arrived, and bytes that were lost (for TCP: retransmitted).
    let carried = |world: &World| {
        let fluids = fluids.iter().map(|flow| {
            let stats = world.fluid(*flow);
            (stats.delivered_bytes, stats.lost_bytes)
        });
        let tcps = tcps.iter().map(|flow| {
            let stats = world.tcp(*flow);
            let packets = stats.delivered_bytes as f64 / 1448.0;
            (packets * 1500.0, stats.retransmitted as f64 * 1500.0)
        });
        let sources = sources.iter().map(|source| {
            let stats = world.traffic(*source);
            let sent = stats.sent as f64 * 1000.0;
            (
                stats.received_bytes as f64,
                sent - stats.received_bytes as f64,
            )
        });
        let all = fluids.chain(tcps).chain(sources);
        all.fold((0.0, 0.0), |sum, one| (sum.0 + one.0, sum.1 + one.1))
    };
    let warm = 5_000;
    let mut engine: Engine<World> = run(world, ms(warm));
    let (bytes, probes) = (
        engine.model.tcp(flow).delivered_bytes,
        engine.model.traffic(source),
    );
    let before = carried(&engine.model);
    engine.run_until(ms(warm + seconds * 1_000), u64::MAX);
    let world = &engine.model;
    let after = world.traffic(source);
    let (arrived, lost) = carried(world);
    let (arrived, lost) = (arrived - before.0, lost - before.1);
    let (sent, received) = (after.sent - probes.sent, after.received - probes.received);
    Foreground {
        goodput_mbps: (world.tcp(flow).delivered_bytes - bytes) as f64 * 8.0 / 1e6 / seconds as f64,
        delay_us: (after.delay_sum_ns - probes.delay_sum_ns) as f64 / received as f64 / 1e3,
        loss: 1.0 - received as f64 / sent as f64,
        background_mbps: arrived * 8.0 / 1e6 / seconds as f64,
        background_loss: lost / (arrived + lost),
    }
}

fn mean(queue: &QueueConfig, background: Background, fluid: bool) -> Foreground {
    const SEEDS: u64 = 10;
    let mut sum = Foreground::default();
    for seed in 0..SEEDS {
        let seen = dumbbell(100 + seed, queue, background, fluid, 25);
        sum.goodput_mbps += seen.goodput_mbps / SEEDS as f64;
        sum.delay_us += seen.delay_us / SEEDS as f64;
        sum.loss += seen.loss / SEEDS as f64;
        sum.background_loss += seen.background_loss / SEEDS as f64;
        sum.background_mbps += seen.background_mbps / SEEDS as f64;
    }
    sum
}

/// Checks that the foreground's goodput and delay agree within 10 %, and the background's load
/// within 5 %, averaged over ten seeds.
#[track_caller]
fn assert_alike(background: Background) {
    let queue = QueueConfig::DropTail { packets: 200 };
    let [packets, fluid] = [false, true].map(|fluid| mean(&queue, background, fluid));
    println!("{background:?}\n  {packets:?}\n  {fluid:?}");
    let near = |a: f64, b: f64, tolerance: f64| (a / b - 1.0).abs() < tolerance;
    let fair = near(fluid.goodput_mbps, packets.goodput_mbps, 0.1)
        && near(fluid.delay_us, packets.delay_us, 0.1)
        && near(fluid.background_mbps, packets.background_mbps, 0.05)
        && (fluid.background_loss - packets.background_loss).abs() < 0.005;
    assert!(fair, "{background:?}: fluid {fluid:?}, packets {packets:?}");
    if !matches!(background, Background::Tcp(_)) {
        // Packets that are not synchronised with TCP flows find the queue full more often than the
        // fluid model predicts (docs/network.md).
        let loss = (fluid.loss - packets.loss).abs();
        assert!(
            loss < 0.003,
            "{background:?}: fluid {fluid:?}, packets {packets:?}"
        );
    }
}

#[test]
fn a_foreground_fares_as_among_random_packets() {
    assert_alike(Background::Poisson);
}

#[test]
fn a_foreground_fares_as_among_bursts() {
    assert_alike(Background::OnOff);
}

#[test]
fn a_foreground_fares_as_among_tcp_flows() {
    assert_alike(Background::Tcp(Control::NewReno));
    assert_alike(Background::Tcp(Control::Cubic));
}

/// Returns a RED queue for a link of 100 Mbit/s.
fn red(ecn: bool) -> QueueConfig {
    QueueConfig::Red(RedConfig {
        min_threshold: 20.0,
        max_threshold: 100.0,
        max_probability: 0.1,
        weight: 0.002,
        packets: 200,
        ecn,
    })
}

/// Compares fluid with packets through RED. Losses of fluid TCP are drawn independently, while RED
/// spaces drops evenly. More of the fluid's losses therefore fall into one round trip and count as
/// one, so that more losses are needed.
#[test]
fn a_foreground_fares_as_among_flows_behind_red() {
    for background in [
        Background::OnOff,
        Background::Tcp(Control::NewReno),
        Background::Tcp(Control::Cubic),
    ] {
        let [packets, fluid] = [false, true].map(|fluid| mean(&red(false), background, fluid));
        println!("{background:?}\n  {packets:?}\n  {fluid:?}");
        let near = |a: f64, b: f64, tolerance: f64| (a / b - 1.0).abs() < tolerance;
        let fair = near(fluid.goodput_mbps, packets.goodput_mbps, 0.15)
            && near(fluid.delay_us, packets.delay_us, 0.05)
            && near(fluid.background_mbps, packets.background_mbps, 0.05)
            && (fluid.background_loss - packets.background_loss).abs() < 0.01
            && (fluid.loss - packets.loss).abs() < 0.01;
        assert!(fair, "{background:?}: fluid {fluid:?}, packets {packets:?}");
    }
}

#[test]
fn red_drops_the_excess_of_an_overload_and_keeps_its_queue_short() {
    let fast = bare(GBIT, Duration::ZERO, 10_000);
    let slow = bare(100 * MBIT, Duration::ZERO, 200).with_queue(red(true));
    let (network, [a, router, b]) = pair(3, fast, slow);
    let port = network.port(router, 1).unwrap();
    let mut world = network.build().unwrap();
    let flow = world.add_fluid(a, b, constant(110 * MBIT)).unwrap();
    let source = world
        .add_traffic(a, b, probe(Duration::from_ms(2)))
        .unwrap();
    let engine = run(world, ms(60_000));
    let world = &engine.model;
    let stats = world.fluid(flow);
    // The offered load is 110.2 Mbit/s, including the probes.
    let lost = stats.lost_bytes / stats.sent_bytes;
    assert!((lost / (10.2 / 110.2) - 1.0).abs() < 0.02, "{lost}");
    // 2p is 9.3 % at an average of 57 packets of 1,000 bytes.
    let delay = mean_delay_us(world.traffic(source));
    assert!((delay / (57.0 * 80.0) - 1.0).abs() < 0.05, "{delay} µs");
    // Probes do not support marks, so the same fraction of them is dropped.
    let probes = world.traffic(source);
    let part = 1.0 - probes.received as f64 / probes.sent as f64;
    assert!((part / lost - 1.0).abs() < 0.1, "{part} {lost}");
    assert_conserved(world, &[flow], &[port]);
}

#[test]
fn bytes_are_conserved_over_several_full_queues_and_lossy_wires() {
    for seed in 0..10 {
        let mut network = NetworkBuilder::new(seed);
        let routers: Vec<_> = (0..5).map(|n| network.router(format!("r{n}"))).collect();
        let mut ports = Vec::new();
        for (pair, rate) in routers.windows(2).zip([90, 60, 80, 40]) {
            let link = bare(rate * MBIT, Duration::from_ms(2), 20 + 10 * seed as u32);
            let (port, _) = network.connect(pair[0], pair[1], link);
            ports.push(port);
        }
        let access = bare(GBIT, Duration::from_ms(1), 1_000).with_impairment(Impairment {
            loss: 0.002,
            duplication: 0.01,
            ..Impairment::default()
        });
        let mut host = |name: String, router: usize| {
            let host = network.host(name);
            network.connect(host, routers[router], access.clone());
            host
        };
        let ends: Vec<_> = [(0, 4), (0, 2), (1, 3), (2, 4), (1, 4)]
            .iter()
            .enumerate()
            .map(|(n, (from, to))| (host(format!("a{n}"), *from), host(format!("b{n}"), *to)))
            .collect();
        let mut world = network.build().unwrap();
        let bursts = FluidConfig::new(FluidPattern::OnOff {
            rate_bps: 80 * MBIT,
            mean_on: Duration::from_ms(50),
            mean_off: Duration::from_ms(30),
        });
        let configs = [
            constant(30 * MBIT),
            poisson(35 * MBIT),
            bursts,
            FluidConfig::tcp(Control::NewReno),
            FluidConfig::tcp(Control::Cubic),
        ];
        let mut flows = Vec::new();
        for ((from, to), config) in ends.iter().zip(configs) {
            flows.push(world.add_fluid(*from, *to, config).unwrap());
            world.add_tcp(*from, *to, TcpConfig::default()).unwrap();
            world
                .add_traffic(*from, *to, probe(Duration::from_ms(1)))
                .unwrap();
        }
        let engine = run(world, ms(10_000));
        let world = &engine.model;
        for flow in &flows {
            let stats = world.fluid(*flow);
            let found = stats.delivered_bytes + stats.lost_bytes + stats.waiting_bytes;
            assert!(
                (found / stats.sent_bytes - 1.0).abs() < 1e-9,
                "seed {seed}: {stats:?}"
            );
            assert!(
                stats.delivered_bytes > 0.3 * stats.sent_bytes,
                "seed {seed}: {stats:?}"
            );
            assert!(stats.waiting_bytes >= -1e-6, "seed {seed}: {stats:?}");
        }
        for (port, rate) in ports.iter().zip([90.0, 60.0, 80.0, 40.0]) {
            let (fluid, packets) = (world.fluid_link(*port), world.link(*port));
            let sent = fluid.arrived_bytes - fluid.lost_bytes - fluid.waiting_bytes;
            assert!(
                fluid.lost_bytes >= 0.0 && sent >= 0.0,
                "seed {seed}: {fluid:?}"
            );
            let most = rate * 1e6 / 8.0 * 10.0;
            let both = sent + packets.bytes as f64;
            // Packets are counted when they are admitted.
            assert!(
                both < 1.01 * most + 150_000.0,
                "seed {seed}: {both} of {most}"
            );
        }
    }
}

#[test]
fn fluid_takes_the_way_of_packets_through_routers_and_switches() {
    let mut network = NetworkBuilder::new(4);
    let link = bare(100 * MBIT, Duration::from_ms(1), 100);
    let [a, b, c] = ["a", "b", "c"].map(|name| network.host(name));
    let [s1, s2, s3] = ["s1", "s2", "s3"].map(|name| network.switch(name));
    let router = network.router("r");
    network.connect(a, s1, link.clone());
    let (across, _) = network.connect(s1, s2, link.clone());
    network.connect(b, s1, link.clone());
    let (up, _) = network.connect(s2, router, link.clone());
    let (down, _) = network.connect(router, s3, link.clone());
    network.connect(c, s3, link.clone());
    let mut world = network.build().unwrap();
    let local = world.add_fluid(a, b, constant(10 * MBIT)).unwrap();
    let far = world.add_fluid(a, c, constant(20 * MBIT)).unwrap();
    let engine = run(world, ms(1_000));
    let world = &engine.model;
    for (port, megabits) in [
        (across, 20.0),
        (up, 20.0),
        (down, 20.0),
        (across.peer(), 0.0),
    ] {
        let arrived = world.fluid_link(port).arrived_bytes * 8.0 / 1e6;
        assert!((arrived - megabits).abs() < 0.1, "{port:?}: {arrived}");
    }
    for (flow, megabits) in [(local, 10.0), (far, 20.0)] {
        let delivered = world.fluid(flow).delivered_bytes * 8.0 / 1e6;
        assert!((delivered - megabits).abs() < 0.1, "{delivered}");
    }
}

#[test]
fn a_link_that_is_down_loses_all_fluid() {
    let link = bare(100 * MBIT, Duration::from_ms(1), 100);
    let (network, [a, router, b]) = pair(4, link.clone(), link);
    let port = network.port(router, 1).unwrap();
    let mut world = network.build().unwrap();
    let flow = world.add_fluid(a, b, constant(10 * MBIT)).unwrap();
    let mut engine = run(world, ms(1_000));
    engine.model.set_reachable(port, false);
    engine.run_until(ms(2_000), u64::MAX);
    engine.model.set_reachable(port, true);
    engine.run_until(ms(3_000), u64::MAX);
    let stats = engine.model.fluid(flow);
    let megabits = |bytes: f64| bytes * 8.0 / 1e6;
    assert!(
        (megabits(stats.delivered_bytes) - 20.0).abs() < 0.1,
        "{stats:?}"
    );
    assert!((megabits(stats.lost_bytes) - 10.0).abs() < 0.1, "{stats:?}");
    assert_conserved(&engine.model, &[flow], &[port]);
}

#[test]
fn queues_that_look_at_single_packets_are_refused() {
    let codel = QueueConfig::CoDel {
        target: Duration::from_ms(5),
        interval: Duration::from_ms(100),
        packets: 100,
        ecn: false,
    };
    let link = bare(100 * MBIT, Duration::from_ms(1), 100);
    let jitter = link.clone().with_impairment(Impairment {
        jitter: Duration::from_ms(1),
        ..Impairment::default()
    });
    for second in [link.clone().with_queue(codel), jitter] {
        let (network, [a, _, b]) = pair(4, link.clone(), second);
        let mut world = network.build().unwrap();
        let refused = world.add_fluid(a, b, constant(MBIT)).unwrap_err();
        assert_eq!(refused, BuildError::FluidQueue("r".into(), "b".into()));
        let refused = world.add_fluid(a, b, constant(0)).unwrap_err();
        assert!(matches!(refused, BuildError::BadTraffic(_)));
    }
}
