//! Links that change while the network runs.

use crate::common::{GBIT, MBIT, bare, ms, pair, run};
use timeloom_engine::Engine;
use timeloom_net::{
    ChangeError, FluidConfig, FluidPattern, LinkChange, LinkConfig, PacketSize, Pattern, PortId,
    QueueConfig, RedConfig, TcpConfig, TrafficConfig, TrafficSourceId, World,
};
use timeloom_time::{Duration, Instant, Virtual};

/// Returns a network a – r – b with packets of 1000 bytes at these instants, in µs, and the second
/// link's port. The first link takes no time worth mentioning.
fn sent(wire: LinkConfig, at_us: &[i64]) -> (World, PortId, TrafficSourceId) {
    let (network, [a, router, b]) = pair(1, bare(1_000 * GBIT, Duration::ZERO, 1_000), wire);
    let port = network.port(router, 1).unwrap();
    let mut world = network.build().unwrap();
    let packets = at_us.iter().map(|at| (Duration::from_us(*at), 1000));
    let pattern = Pattern::Trace {
        packets: packets.collect(),
        every: None,
    };
    let source = TrafficConfig::udp(pattern, PacketSize::Fixed(0));
    let source = world.add_traffic(a, b, source).unwrap();
    (world, port, source)
}

fn us(us: i64) -> Instant<Virtual> {
    Instant::ZERO + Duration::from_us(us)
}

fn delay(us: i64) -> LinkChange {
    LinkChange {
        delay: Some(Duration::from_us(us)),
        ..LinkChange::default()
    }
}

/// Returns the instants, in µs, by which each further packet has arrived.
fn arrivals(mut engine: Engine<World>, source: TrafficSourceId, until_us: i64) -> Vec<i64> {
    let mut all = Vec::new();
    for at in 0..=until_us {
        engine.run_until(us(at), u64::MAX);
        let received = engine.model.traffic(source).received as usize;
        all.resize(received.max(all.len()), at);
    }
    all
}

fn begun(world: World) -> Engine<World> {
    run(world, Instant::ZERO)
}

// 1000 bytes at 80 Mbit/s take 100 µs.
const SLOW: u64 = 80 * MBIT;

#[test]
fn a_planned_delay_applies_from_its_instant_and_packets_in_flight_keep_theirs() {
    let (mut world, port, source) = sent(bare(SLOW, Duration::from_us(500), 10), &[0, 300, 1_000]);
    world.plan_change(port, us(350), delay(2_000)).unwrap();
    // The first packet has left, the second one is being transmitted.
    assert_eq!(
        arrivals(begun(world), source, 4_000),
        [601, 2_401, 3_101],
        "the start of each packet on the first link takes less than 1 µs"
    );
}

#[test]
fn a_shorter_delay_lets_no_packet_overtake_another() {
    let wire = bare(SLOW, Duration::from_us(2_000), 10);
    let (mut world, port, source) = sent(wire, &[0, 300, 3_000]);
    world.plan_change(port, us(200), delay(50)).unwrap();
    assert_eq!(arrivals(begun(world), source, 4_000), [2_101, 2_101, 3_151]);
}

#[test]
fn a_rate_applies_to_the_next_transmission() {
    let wire = bare(SLOW, Duration::ZERO, 10);
    let (mut world, port, source) = sent(wire, &[0, 0, 0]);
    let change = LinkChange {
        rate_bps: Some(SLOW / 10),
        ..LinkChange::default()
    };
    world.plan_change(port, us(50), change).unwrap();
    let mut engine = begun(world);
    engine.run_until(us(50), u64::MAX);
    assert_eq!(engine.model.present_rate_bps(port), SLOW / 10);
    assert_eq!(arrivals(engine, source, 3_000), [101, 1_101, 2_101]);
}

#[test]
fn a_link_that_goes_down_drops_waiting_packets_and_finishes_its_transmission() {
    let wire = bare(SLOW, Duration::from_us(500), 10);
    let (mut world, port, source) = sent(wire, &[0, 0, 0, 200, 400]);
    let up = |up| LinkChange {
        up: Some(up),
        ..LinkChange::default()
    };
    world.plan_change(port, us(50), up(false)).unwrap();
    world.plan_change(port, us(300), up(true)).unwrap();
    let mut engine = begun(world);
    engine.run_until(us(60), u64::MAX);
    assert_eq!(engine.model.link(port).dropped, 2);
    assert_eq!(arrivals(engine, source, 2_000), [601, 1_001]);
}

#[test]
fn a_change_by_hand_equals_the_planned_one() {
    let all: Vec<i64> = (0..200).map(|index| index * 37).collect();
    let change = LinkChange {
        rate_bps: Some(SLOW / 2),
        delay: Some(Duration::from_us(900)),
        ..LinkChange::default()
    };
    let wire = bare(SLOW, Duration::from_us(500), 1_000);
    let (mut world, port, source) = sent(wire.clone(), &all);
    world.plan_change(port, us(2_000), change).unwrap();
    let planned = run(world, ms(100));

    let (world, port, _) = sent(wire, &all);
    let mut engine = run(world, us(1_999));
    engine.with(|world, agenda| world.change_link(port, us(2_000), change, agenda).unwrap());
    engine.run_until(ms(100), u64::MAX);
    assert_eq!(planned.model.traffic(source), engine.model.traffic(source));
    let [one, other] = [&planned, &engine].map(|engine| engine.model.link(port));
    assert_eq!((one.packets, one.bytes), (other.packets, other.bytes));
    assert_eq!(one.waited_ns, other.waited_ns);
    assert_eq!(engine.model.packets_alive(), 0);
}

#[test]
fn a_loss_by_hand_replaces_the_decisions_about_waiting_packets() {
    let wire = bare(SLOW, Duration::ZERO, 1_000);
    let (world, port, source) = sent(wire, &[0; 500]);
    let mut engine = run(world, us(10_050));
    let lossy = |loss| LinkChange {
        loss: Some(loss),
        ..LinkChange::default()
    };
    let now = engine.now();
    engine.with(|world, agenda| world.change_link(port, now, lossy(1.0), agenda).unwrap());
    engine.run_until(us(20_050), u64::MAX);
    let before = engine.model.traffic(source).received;
    assert!((99..=101).contains(&before), "{before}");
    let now = engine.now();
    engine.with(|world, agenda| world.change_link(port, now, lossy(0.0), agenda).unwrap());
    engine.run_until(ms(100), u64::MAX);
    let stats = engine.model.link(port);
    assert_eq!(stats.lost + engine.model.traffic(source).received, 500);
    assert!((99..=101).contains(&stats.lost), "{stats:?}");
}

#[test]
fn a_link_with_planned_changes_behaves_before_them_as_one_without() {
    let through = |planned: bool, queue: u32| {
        let wire = bare(SLOW, Duration::from_ms(2), queue);
        let (network, [a, router, b]) = pair(3, bare(GBIT, Duration::ZERO, 1_000), wire);
        let port = network.port(router, 1).unwrap();
        let mut world = network.build().unwrap();
        let flow = world.add_tcp(a, b, TcpConfig::default()).unwrap();
        if planned {
            world.plan_change(port, ms(1_900), delay(7)).unwrap();
        }
        run(world, ms(1_900)).model.tcp(flow)
    };
    assert_eq!(through(false, 30), through(true, 30));
    // A packet that needs not wait passes a link whose queue has no room.
    assert_eq!(through(false, 0), through(true, 0));
}

#[test]
fn a_network_that_begins_late_has_made_past_changes_in_the_order_of_their_instants() {
    let (mut world, port, _) = sent(bare(SLOW, Duration::from_us(500), 10), &[0]);
    for (at, new) in [(9_000, 30), (3_000, 10), (12_000, 40), (6_000, 20)] {
        world.plan_change(port, us(at), delay(new)).unwrap();
    }
    let mut engine: Engine<World> = Engine::new(world);
    engine.run_until(us(10_000), u64::MAX);
    engine.with(|world, agenda| world.start(agenda));
    assert_eq!(engine.model.present_delay(port), Duration::from_us(30));
    assert_eq!(engine.model.least_delay(port), Duration::from_us(10));
    engine.run_until(us(12_000), u64::MAX);
    assert_eq!(engine.model.present_delay(port), Duration::from_us(40));
}

#[test]
fn links_with_red_or_fluid_and_impossible_values_are_refused() {
    let red = LinkConfig::new(GBIT, Duration::ZERO)
        .with_queue(QueueConfig::Red(RedConfig::step(20, 100)));
    let (mut world, port, _) = sent(red, &[0]);
    let refused = world.plan_change(port, us(1), delay(1));
    assert_eq!(refused, Err(ChangeError::Red));

    let (mut world, port, _) = sent(bare(GBIT, Duration::ZERO, 10), &[0]);
    for change in [
        delay(-1),
        LinkChange {
            loss: Some(1.5),
            ..LinkChange::default()
        },
        LinkChange {
            rate_bps: Some(0),
            ..LinkChange::default()
        },
    ] {
        let refused = world.plan_change(port, us(1), change);
        assert_eq!(refused, Err(ChangeError::BadValue), "{change:?}");
    }
    let (network, [a, router, b]) = {
        let wire = bare(GBIT, Duration::ZERO, 10);
        pair(1, wire.clone(), wire)
    };
    let port = network.port(router, 1).unwrap();
    let mut world = network.build().unwrap();
    let fluid = FluidConfig::new(FluidPattern::Constant { rate_bps: MBIT });
    world.add_fluid(a, b, fluid).unwrap();
    let refused = world.plan_change(port, us(1), delay(1));
    assert_eq!(refused, Err(ChangeError::Fluid));
}
