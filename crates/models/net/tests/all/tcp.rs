//! TCP against the formulas of the literature.

use crate::common::{GBIT, MBIT, bare, ms, pair, run};
use timeloom_net::topology::dumbbell;
use timeloom_net::{Control, Impairment, NetworkBuilder, TcpConfig, TcpStats};
use timeloom_time::{Duration, Instant};

/// One flow over a path of this round-trip time and loss for 200 s; the rate
/// is never the limit. Segments per second.
fn lossy(loss: f64, round_trip: Duration, control: Control) -> f64 {
    let half = Duration::from_ns(round_trip.as_ns() / 4);
    let first = bare(10 * GBIT, half, 100_000);
    let wire = bare(10 * GBIT, half, 100_000).with_impairment(Impairment::loss(loss));
    let mut network = NetworkBuilder::new(21);
    let (a, router, b) = (network.host("a"), network.router("r"), network.host("b"));
    network.connect(a, router, first);
    // Acknowledgements are not lost, as in the formula.
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

/// Padhye et al., "Modeling TCP throughput", SIGCOMM 1998, equation 30, in
/// segments per second. `b` is 1 although every second segment is acknowledged:
/// the window grows by bytes, not by acknowledgements (RFC 3465).
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
        // The formula loses whole windows at a time and knows no selective
        // acknowledgements: the further apart the losses, the nearer.
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

/// RFC 9438, equation 6, or in the Reno-friendly region (section 4.3) Reno's;
/// segments per second.
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
        // The formula has losses at equal distances. At random ones the
        // convex part of the curve gains more than the concave one loses.
        assert!(
            (0.85..1.6).contains(&ratio),
            "loss {loss}, {ms} ms: {got} against {expected}"
        );
    }
}

#[test]
fn cubic_is_the_faster_one_on_long_paths_only() {
    let ratio = |loss, ms| {
        let round_trip = Duration::from_ms(ms);
        lossy(loss, round_trip, Control::Cubic) / lossy(loss, round_trip, Control::NewReno)
    };
    // RFC 9438 section 5: on short paths the Reno-friendly region.
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

fn shares(control: Control, flows: u32) -> (f64, f64, Vec<TcpStats>) {
    let mut network = NetworkBuilder::new(4);
    let access = bare(GBIT, Duration::from_ms(1), 1_000);
    let bottleneck = bare(200 * MBIT, Duration::from_ms(1), 300);
    let ends = dumbbell(&mut network, "", flows, &access, &bottleneck);
    let mut world = network.build().unwrap();
    let ids: Vec<_> = (0..flows as usize)
        .map(|flow| {
            // Not all at the same instant: equal flows in step share unfairly.
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
    for control in [Control::NewReno, Control::Cubic] {
        let (used, jain, stats) = shares(control, 8);
        assert!(used > 0.97, "{control:?} uses {used}");
        assert!(jain > 0.9, "{control:?}: {jain} {stats:?}");
    }
}

#[test]
fn a_transfer_ends_and_is_complete() {
    for loss in [0.0, 0.02, 0.1] {
        let link =
            bare(100 * MBIT, Duration::from_ms(2), 20).with_impairment(Impairment::loss(loss));
        let (network, [a, _, b]) = pair(8, bare(GBIT, Duration::ZERO, 1_000), link);
        let mut world = network.build().unwrap();
        let config = TcpConfig {
            segments: Some(500),
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
