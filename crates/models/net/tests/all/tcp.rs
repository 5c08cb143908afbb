//! Comparisons of TCP with formulas from the literature.

use crate::common::{GBIT, MBIT, bare, ms, pair, run};
use timeloom_net::topology::dumbbell;
use timeloom_net::{
    Control, Impairment, LinkConfig, NetworkBuilder, QueueConfig, RedConfig, TcpConfig, TcpStats,
};
use timeloom_time::{Duration, Instant};

/// Runs one flow over a path with this round-trip time and loss for 200 s; the link's rate is never
/// the limit. Returns segments per second.
fn lossy(loss: f64, round_trip: Duration, control: Control) -> f64 {
    let half = Duration::from_ns(round_trip.as_ns() / 4);
    let first = bare(10 * GBIT, half, 100_000);
    let wire = bare(10 * GBIT, half, 100_000).with_impairment(Impairment::loss(loss));
    let mut network = NetworkBuilder::new(21);
    let (a, router, b) = (network.host("a"), network.router("r"), network.host("b"));
    network.connect(a, router, first);
    // As in the formula, acknowledgements are not lost.
    network.connect_unlike(
        router,
        b,
        wire.clone(),
        wire.with_impairment(Impairment::default()),
    );
    let mut world = network.build().unwrap();
    let config = TcpConfig {
        control,
        ..TcpConfig::default()
    };
    let flow = world.add_tcp(a, b, config).unwrap();
    let stats = run(world, ms(200_000)).model.tcp(flow);
    stats.delivered_bytes as f64 / 1448.0 / 200.0
}

/// Returns the rate in segments per second by Padhye et al., "Modeling TCP throughput", SIGCOMM
/// 1998, equation 30. `b` is 1 although every second segment is acknowledged, because the window
/// grows by bytes and not by acknowledgements (RFC 3465).
fn pftk(loss: f64, round_trip_s: f64, timeout_s: f64) -> f64 {
    let b = 1.0;
    let fast = round_trip_s * (2.0 * b * loss / 3.0).sqrt();
    let slow = (3.0 * (3.0 * b * loss / 8.0).sqrt()).min(1.0);
    1.0 / (fast + timeout_s * slow * loss * (1.0 + 32.0 * loss * loss))
}

#[test]
fn new_reno_follows_the_formula() {
    let round_trip = Duration::from_ms(40);
    for loss in [1e-4, 1e-3, 5e-3, 1e-2] {
        let got = lossy(loss, round_trip, Control::NewReno);
        let expected = pftk(loss, 0.04, 0.2);
        let ratio = got / expected;
        // The formula assumes that losses hit whole windows, and has no selective acknowledgements.
        // The rarer the losses, the closer the results agree.
        assert!(
            (0.75..1.35).contains(&ratio),
            "loss {loss}: {got} against {expected}"
        );
    }
}

#[test]
fn new_reno_goes_with_one_over_the_root_and_one_over_the_round_trip() {
    let base = lossy(1e-3, Duration::from_ms(40), Control::NewReno);
    let four_losses = lossy(4e-3, Duration::from_ms(40), Control::NewReno);
    let half_way = lossy(1e-3, Duration::from_ms(20), Control::NewReno);
    assert!(
        (base / four_losses / 2.0 - 1.0).abs() < 0.15,
        "{base} {four_losses}"
    );
    assert!(
        (half_way / base / 2.0 - 1.0).abs() < 0.1,
        "{base} {half_way}"
    );
}

/// Returns the rate in segments per second for the window of RFC 9438, equation 6; in the
/// Reno-friendly region (section 4.3), for Reno's window.
fn cubic_window(loss: f64, round_trip_s: f64) -> f64 {
    let (c, beta) = (0.4, 0.7);
    let factor: f64 = c * (3.0 + beta) / (4.0 * (1.0 - beta));
    let window = factor.powf(0.25) * (round_trip_s / loss).powf(0.75);
    window.max((1.5 / loss).sqrt()) / round_trip_s
}

#[test]
fn cubic_follows_the_formula() {
    for (loss, ms) in [
        (1e-2, 10),
        (1e-3, 10),
        (1e-2, 100),
        (1e-3, 100),
        (1e-4, 100),
    ] {
        let got = lossy(loss, Duration::from_ms(ms), Control::Cubic);
        let expected = cubic_window(loss, ms as f64 / 1e3);
        let ratio = got / expected;
        // The formula assumes losses at equal distances. With random losses, the convex part of the
        // curve gains more than the concave part loses.
        assert!(
            (0.85..1.6).contains(&ratio),
            "loss {loss}, {ms} ms: {got} against {expected}"
        );
    }
}

/// A window that is reduced by the factor β and grows by α per round trip has the mean of the root
/// of α (1 + β) / (2 (1 - β) loss). With RFC 8312's α of 3 (1 - β) / (1 + β) (section 4.2), this is
/// Reno's window. The window of RFC 9438 grows by a whole segment once it has its former size
/// again, and is therefore faster.
#[test]
fn the_reno_friendly_window_of_rfc_8312_is_the_slower_one() {
    let short = Duration::from_ms(10);
    let [new, old, reno] = [Control::Cubic, Control::Cubic8312, Control::NewReno]
        .map(|control| lossy(1e-2, short, control));
    assert!(old < new, "{old} {new}");
    assert!((0.8..1.1).contains(&(old / reno)), "{old} {reno}");
    // In the cubic region, both behave alike.
    let [new, old] = [Control::Cubic, Control::Cubic8312]
        .map(|control| lossy(1e-4, Duration::from_ms(200), control));
    assert!((new / old - 1.0).abs() < 0.02, "{old} {new}");
}

#[test]
fn cubic_is_the_faster_one_on_long_paths_only() {
    let ratio = |loss, ms| {
        let round_trip = Duration::from_ms(ms);
        lossy(loss, round_trip, Control::Cubic) / lossy(loss, round_trip, Control::NewReno)
    };
    // On short paths, the window is in the Reno-friendly region (RFC 9438, section 5).
    let short = ratio(1e-3, 10);
    assert!((0.8..1.5).contains(&short), "{short}");
    let long = ratio(1e-4, 200);
    assert!(long > 1.5, "{long}");
}

#[test]
fn one_flow_fills_a_clean_link() {
    let link = bare(100 * MBIT, Duration::from_ms(5), 200);
    let (network, [a, _, b]) = pair(1, link.clone(), link);
    let mut world = network.build().unwrap();
    let flow = world.add_tcp(a, b, TcpConfig::default()).unwrap();
    let mut engine = run(world, ms(2_000));
    let before = engine.model.tcp(flow).delivered_bytes;
    engine.run_until(ms(12_000), u64::MAX);
    let bytes = engine.model.tcp(flow).delivered_bytes - before;
    let share = bytes as f64 * 8.0 / 10.0 / (100e6 * 1448.0 / 1500.0);
    assert!(share > 0.99, "{share} of the link's payload rate");
}

/// Results of several flows through one link.
struct Behind {
    /// Fraction of the link's payload rate that the flows used after the first seconds.
    used: f64,
    /// Samples of the number of waiting packets.
    waiting: Vec<u32>,
    dropped: u64,
    flows: Vec<TcpStats>,
}

fn behind(link: &LinkConfig, control: Control, flows: u32) -> Behind {
    let mut network = NetworkBuilder::new(6);
    let access = bare(10 * GBIT, Duration::from_us(10), 1_000);
    let ends = dumbbell(&mut network, "", flows, &access, link);
    let mut world = network.build().unwrap();
    let config = |flow: usize| TcpConfig {
        control,
        start: Instant::ZERO + Duration::from_ms(7 * flow as i64),
        ..TcpConfig::default()
    };
    let pairs = ends.left.iter().zip(&ends.right).enumerate();
    let ids = pairs.map(|(flow, (from, to))| world.add_tcp(*from, *to, config(flow)).unwrap());
    let ids: Vec<_> = ids.collect();
    let trunk = world.cables().find(|cable| {
        let ends = [cable.from, cable.to].map(|node| world.name(node));
        ends == ["left", "right"]
    });
    let trunk = trunk.expect("it is there").port;
    let mut engine = run(world, ms(3_000));
    let stats = |world: &timeloom_net::World| ids.iter().map(|id| world.tcp(*id)).collect();
    let before: Vec<TcpStats> = stats(&engine.model);
    // Opening segments do not support marks.
    let dropped = engine.model.link(trunk).dropped;
    let mut waiting = Vec::new();
    for step in 1..=7_000 {
        let now = ms(3_000 + step);
        engine.run_until(now, u64::MAX);
        waiting.push(engine.model.waiting(trunk, now));
    }
    let after: Vec<TcpStats> = stats(&engine.model);
    let both = before.iter().zip(&after);
    let bytes: u64 = both
        .map(|(a, b)| b.delivered_bytes - a.delivered_bytes)
        .sum();
    let rate_bps = link.rate_bps as f64 * 1448.0 / 1500.0;
    Behind {
        used: bytes as f64 * 8.0 / 7.0 / rate_bps,
        waiting,
        dropped: engine.model.link(trunk).dropped - dropped,
        flows: after,
    }
}

fn mean(waiting: &[u32]) -> f64 {
    waiting.iter().map(|count| f64::from(*count)).sum::<f64>() / waiting.len() as f64
}

/// Cardwell et al., "BBR", ACM Queue 14(5), 2016: losses below 20 % do not reduce the rate (figure
/// 8), and a large buffer stays empty (figure 5).
#[test]
fn bbr_neither_slows_down_at_losses_nor_fills_buffers() {
    let half = Duration::from_ms(20);
    for loss in [0.001, 0.01, 0.05] {
        let lossy = bare(50 * MBIT, half, 1_000).with_impairment(Impairment::loss(loss));
        let bbr = behind(&lossy, Control::Bbr, 1).used;
        assert!(bbr > 0.9 * (1.0 - loss), "{bbr} at {loss}");
        let reno = behind(&lossy, Control::NewReno, 1).used;
        assert!(bbr > 1.5 * reno, "{bbr} and {reno} at {loss}");
    }
    // The buffer has four times the path's bandwidth-delay product.
    let deep = bare(50 * MBIT, half, 667);
    let bbr = behind(&deep, Control::Bbr, 1);
    let reno = behind(&deep, Control::NewReno, 1);
    assert!(
        bbr.used > 0.93 && reno.used > 0.98,
        "{} {}",
        bbr.used,
        reno.used
    );
    let (short, long) = (mean(&bbr.waiting), mean(&reno.waiting));
    assert!(
        short < 20.0 && long > 5.0 * short,
        "{short} and {long} wait"
    );
    assert_eq!((bbr.flows[0].retransmitted, bbr.flows[0].timeouts), (0, 0));
}

/// Every ten seconds, the window is four segments for 200 ms (draft-cardwell-iccrg-bbr-00).
#[test]
fn bbr_looks_for_the_shortest_round_trip_now_and_then() {
    let link = bare(50 * MBIT, Duration::from_ms(20), 400);
    let (network, [a, _, b]) = pair(1, bare(GBIT, Duration::ZERO, 1_000), link);
    let mut world = network.build().unwrap();
    let config = TcpConfig {
        control: Control::Bbr,
        ..TcpConfig::default()
    };
    let flow = world.add_tcp(a, b, config).unwrap();
    let mut engine = run(world, ms(2_000));
    let mut small = 0;
    for step in 1..=30_000 {
        engine.run_until(ms(2_000 + step), u64::MAX);
        small += u32::from(engine.model.tcp(flow).window <= 4.0);
    }
    // The measurement is skipped if a round trip was as short meanwhile; with a round trip longer
    // than 200 ms, it takes place each time.
    assert!(
        (200..1_200).contains(&small),
        "{small} ms with a small window"
    );
}

/// The queue of N flows is at most the threshold plus N, and varies little; no packet is dropped,
/// and the link is fully used (RFC 8257; Alizadeh et al., SIGCOMM 2010, section 3.3).
#[test]
fn dctcp_keeps_the_queue_at_the_threshold_and_the_link_full() {
    for flows in [1, 2, 8] {
        let queue = QueueConfig::Red(RedConfig::step(20, 500));
        let link = bare(GBIT, Duration::from_us(50), 0).with_queue(queue);
        let found = behind(&link, Control::Dctcp, flows);
        assert!(found.used > 0.97, "{flows} flows use {}", found.used);
        assert_eq!(found.dropped, 0, "{flows} flows");
        let most = found.waiting.iter().max().copied().unwrap_or(0);
        // A delayed acknowledgement releases two segments at once.
        assert!(most <= 20 + 3 * flows + 4, "{most} wait of {flows} flows");
        let usual = mean(&found.waiting);
        assert!(
            (4.0..=24.0).contains(&usual),
            "{usual} wait of {flows} flows"
        );
        let slowed = |stats: &TcpStats| stats.slowed_by_marks > 10 && stats.retransmitted == 0;
        assert!(found.flows.iter().all(slowed), "{:?}", found.flows);
    }
}

/// With NewReno, the same marks halve the window each time, and the queue becomes empty.
#[test]
fn dctcp_gives_way_by_less_than_a_halving() {
    let queue = QueueConfig::Red(RedConfig::step(20, 500));
    let link = bare(GBIT, Duration::from_ms(1), 0).with_queue(queue);
    let dctcp = behind(&link, Control::Dctcp, 1).used;
    let (network, [a, _, b]) = pair(1, bare(10 * GBIT, Duration::ZERO, 1_000), link);
    let mut world = network.build().unwrap();
    let config = TcpConfig {
        ecn: true,
        ..TcpConfig::default()
    };
    let flow = world.add_tcp(a, b, config).unwrap();
    let mut engine = run(world, ms(3_000));
    let before = engine.model.tcp(flow).delivered_bytes;
    engine.run_until(ms(10_000), u64::MAX);
    let bytes = engine.model.tcp(flow).delivered_bytes - before;
    let reno = bytes as f64 * 8.0 / 7.0 / (1e9 * 1448.0 / 1500.0);
    assert!(dctcp > reno + 0.05, "{dctcp} and {reno}");
}

fn shares(control: Control, flows: u32) -> (f64, f64, Vec<TcpStats>) {
    let mut network = NetworkBuilder::new(4);
    let access = bare(GBIT, Duration::from_ms(1), 1_000);
    let bottleneck = bare(200 * MBIT, Duration::from_ms(1), 300);
    let ends = dumbbell(&mut network, "", flows, &access, &bottleneck);
    let mut world = network.build().unwrap();
    let ids: Vec<_> = (0..flows as usize)
        .map(|flow| {
            // The flows start at different instants, because synchronised equal flows share the
            // link unfairly.
            let config = TcpConfig {
                control,
                start: Instant::ZERO + Duration::from_ms(7 * flow as i64),
                ..TcpConfig::default()
            };
            world
                .add_tcp(ends.left[flow], ends.right[flow], config)
                .unwrap()
        })
        .collect();
    let mut engine = run(world, ms(5_000));
    let all = |engine: &timeloom_engine::Engine<timeloom_net::World>| -> Vec<TcpStats> {
        ids.iter().map(|id| engine.model.tcp(*id)).collect()
    };
    let before = all(&engine);
    engine.run_until(ms(35_000), u64::MAX);
    let after = all(&engine);
    let rates = before.iter().zip(&after);
    let rates: Vec<f64> = rates
        .map(|(before, after)| (after.delivered_bytes - before.delivered_bytes) as f64)
        .collect();
    let sum: f64 = rates.iter().sum();
    let squares: f64 = rates.iter().map(|rate| rate * rate).sum();
    let used = sum * 8.0 / 30.0 / (200e6 * 1448.0 / 1500.0);
    (used, sum * sum / squares / f64::from(flows), after)
}

#[test]
fn equal_flows_share_a_full_bottleneck_fairly() {
    for control in [Control::NewReno, Control::Cubic, Control::Bbr] {
        let (used, jain, stats) = shares(control, 8);
        // BBR spends a fiftieth of the time on measuring the shortest round trip.
        assert!(used > 0.93, "{control:?} uses {used}");
        assert!(jain > 0.9, "{control:?}: {jain} {stats:?}");
    }
}

#[test]
fn a_transfer_ends_and_is_complete() {
    for (loss, control) in [
        (0.0, Control::NewReno),
        (0.02, Control::NewReno),
        (0.1, Control::NewReno),
        (0.0, Control::Bbr),
        (0.1, Control::Bbr),
        (0.1, Control::Dctcp),
    ] {
        let link =
            bare(100 * MBIT, Duration::from_ms(2), 20).with_impairment(Impairment::loss(loss));
        let (network, [a, _, b]) = pair(8, bare(GBIT, Duration::ZERO, 1_000), link);
        let mut world = network.build().unwrap();
        let config = TcpConfig {
            segments: Some(500),
            control,
            ..TcpConfig::default()
        };
        let flow = world.add_tcp(a, b, config).unwrap();
        let engine = run(world, ms(1_000_000));
        let stats = engine.model.tcp(flow);
        assert_eq!(stats.delivered_bytes, 500 * 1448, "loss {loss}");
        assert!(stats.finished_at.is_some(), "loss {loss}: {stats:?}");
        assert_eq!(engine.model.packets_alive(), 0);
        assert_eq!(engine.next_wake(), None, "nothing is left behind");
    }
}
