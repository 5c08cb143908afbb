//! Tests of engines that do not wait for one another, over real sockets and shared memory.

use std::net::UdpSocket;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration as StdDuration;

use timeloom_emulation::peering::datagram::Key;
use timeloom_emulation::peering::peer::{PeerConfig, PeerStats};
use timeloom_emulation::peering::{Cut, Endpoint, Pause, Portal, Socket, run};
use timeloom_engine::{Engine, Limit, Pace, Paced};
use timeloom_net::topology::dumbbell;
use timeloom_net::{
    FlowId, LinkConfig, NetworkBuilder, Owner, PacketSize, Pattern, PortId, TcpConfig,
    TrafficConfig, TrafficSourceId, World,
};
use timeloom_sys::schedule::{SchedulingPolicy, policy, set_policy};
use timeloom_sys::wall_now;
use timeloom_time::{Duration, Instant};

/// Port of the left router at the trunk of the dumbbell.
const BAR: PortId = PortId(0);

/// Creates three hosts on each side of a trunk of 5 ms. A TCP flow and a source cross the trunk,
/// and another source stays within the left side.
fn world() -> World {
    let mut network = NetworkBuilder::new(1);
    let access = LinkConfig::new(100_000_000, Duration::from_us(100));
    let bar = LinkConfig::new(50_000_000, Duration::from_ms(5));
    let ends = dumbbell(&mut network, "", 3, &access, &bar);
    let mut world = network.build().unwrap();
    let tcp = TcpConfig::default();
    world.add_tcp(ends.left[0], ends.right[0], tcp).unwrap();
    let pattern = Pattern::Constant {
        rate_bps: 8_000_000,
    };
    let udp = TrafficConfig::udp(pattern, PacketSize::Fixed(1_000));
    world
        .add_traffic(ends.right[1], ends.left[1], udp.clone())
        .unwrap();
    world.add_traffic(ends.left[1], ends.left[2], udp).unwrap();
    world
}

fn cut(world: &World) -> Cut {
    let side = |name: &str| Owner::from(name.starts_with('r'));
    let nodes = (0..world.nodes() as u32).map(timeloom_net::Node);
    let owners = nodes.map(|node| side(world.name(node))).collect();
    Cut::new(world, owners).unwrap()
}

struct Instance {
    paced: Paced<World>,
    portal: Portal,
}

/// Creates engine `here`, with the other engine at the other end of `endpoint`.
fn instance(here: Owner, endpoint: Endpoint, epoch: u64) -> Instance {
    instance_apart(here, endpoint, epoch, Duration::ZERO)
}

/// Creates an engine as [`instance`] does, with this difference between the two engines' clocks.
fn instance_apart(here: Owner, endpoint: Endpoint, epoch: u64, clocks_apart: Duration) -> Instance {
    let mut world = world();
    let cut = cut(&world);
    cut.apply(&mut world, here);
    let key = Key::new([5; 32]);
    let mut portal = Portal::new(&world, cut, here, key, epoch, Limit::default());
    let config = PeerConfig {
        heartbeat: Duration::from_ms(20),
        silence: Duration::from_s(1),
        clocks_apart,
        ..PeerConfig::default()
    };
    portal.add(&mut world, 1 - here, endpoint, config);
    let mut engine: Engine<World> = Engine::new(world);
    engine.with(|world, agenda| world.start(agenda));
    let pace = Pace::real(wall_now(), Instant::ZERO);
    Instance {
        paced: Paced::new(engine, pace, Limit::default()),
        portal,
    }
}

impl Instance {
    /// Waits until the other engine is present, for two minutes at most.
    fn join(&mut self) {
        let begun = wall_now();
        while !self.portal.is_complete() {
            self.portal
                .poll(&mut self.paced.engine, wall_now())
                .unwrap();
            std::thread::sleep(StdDuration::from_millis(1));
            assert!(
                wall_now() - begun < Duration::from_s(120),
                "the other engine did not come"
            );
        }
        self.paced.set_pace(Pace::real(wall_now(), Instant::ZERO));
    }

    fn run(&mut self, ms: i64) {
        let end = Instant::ZERO + Duration::from_ms(ms);
        run(
            &mut self.paced,
            &mut self.portal,
            end,
            Pause::default(),
            || false,
        )
        .unwrap();
        assert!(self.paced.engine.now() >= end);
    }

    fn world(&self) -> &World {
        &self.paced.engine.model
    }
}

#[test]
fn two_engines_carry_traffic_to_one_another() {
    let [left, right] = carry(Endpoint::udp_pair().unwrap());
    for (name, stats) in [("left", left), ("right", right)] {
        let each = stats.bytes_sent / stats.packets_sent.max(1);
        assert!(each < 100, "{name}: {each} bytes per packet");
    }
}

#[test]
fn two_threads_carry_traffic_to_one_another_by_shared_memory() {
    let [left, right] = carry(Endpoint::ring_pair().unwrap());
    for (name, stats) in [("left", left), ("right", right)] {
        assert_eq!(stats.joined, 1, "{name}: {stats:?}");
        assert_eq!(stats.dropped_full, 0, "{name}: {stats:?}");
    }
}

/// Starts engine 1 on its own thread, which runs until it is stopped.
fn right_engine(endpoint: Endpoint) -> (Arc<AtomicBool>, JoinHandle<Instance>) {
    let stop = Arc::new(AtomicBool::new(false));
    let stopped = Arc::clone(&stop);
    let right = std::thread::spawn(move || {
        let mut right = instance(1, endpoint, 7);
        right.join();
        let end = Instant::ZERO + Duration::from_s(60);
        let stop = || stopped.load(Ordering::Relaxed);
        let (paced, portal) = (&mut right.paced, &mut right.portal);
        run(paced, portal, end, Pause::default(), stop).unwrap();
        right
    });
    (stop, right)
}

/// Runs a flow and a source between two engines; returns the counters of both.
fn carry([a, b]: [Endpoint; 2]) -> [PeerStats; 2] {
    let (stop, right) = right_engine(b);
    let mut left = instance(0, a, 8);
    left.join();
    // The run is longer only if the other thread gets no processor.
    let mut ms = 400;
    while left.world().traffic(TrafficSourceId(0)).received <= 100 && ms < 30_000 {
        ms += 200;
        left.run(ms);
    }
    stop.store(true, Ordering::Relaxed);
    let mut right = right.join().unwrap();
    right.portal.close(wall_now()).unwrap();
    let delivered = right.world().tcp(FlowId(0)).delivered_bytes;
    assert!(delivered > 0, "nothing of the flow");
    assert!(left.world().tcp(FlowId(0)).smoothed_rtt >= Duration::from_ms(10));
    let sent = right.world().traffic(TrafficSourceId(0)).sent;
    let received = left.world().traffic(TrafficSourceId(0)).received;
    assert!(received > 100 && received <= sent, "{received} of {sent}");
    [("left", &left), ("right", &right)].map(|(name, instance)| {
        let (_, _, stats) = instance.portal.peers().next().unwrap();
        let portal = instance.portal.stats();
        assert_eq!(
            stats.hostile + stats.malformed + stats.stale,
            0,
            "{name}: {stats:?}"
        );
        assert_eq!(
            portal.senseless + portal.refused + portal.no_route,
            0,
            "{name}: {portal:?}"
        );
        assert_eq!(portal.taken, stats.packets_received, "{name}");
        assert_eq!(instance.portal.lateness().events(), portal.taken, "{name}");
        stats
    })
}

#[test]
fn a_packet_counts_as_late_that_may_be_late_by_the_other_clock() {
    let [a, b] = Endpoint::udp_pair().unwrap();
    let (stop, right) = right_engine(b);
    // The difference of the clocks is longer than the time by which any packet is sent ahead.
    let apart = Duration::from_s(3_600);
    let mut left = instance_apart(0, a, 8, apart);
    left.join();
    let mut ms = 0;
    while left.world().traffic(TrafficSourceId(0)).received == 0 && ms < 60_000 {
        ms += 200;
        left.run(ms);
    }
    stop.store(true, Ordering::Relaxed);
    right.join().unwrap();
    let report = left.portal.adjacencies().next().unwrap();
    assert_eq!(report.clocks_apart, apart);
    assert!(report.late > 0 && report.late == report.lateness.events());
    let horizon = PeerConfig::default().horizon;
    assert!(report.lateness.worst() >= apart - horizon, "{report:?}");
}

#[test]
fn a_thread_that_ends_takes_its_links_down() {
    let [a, b] = Endpoint::ring_pair().unwrap();
    let mut left = instance(0, a, 8);
    let stop = Arc::new(AtomicBool::new(false));
    let stopped = Arc::clone(&stop);
    let right = std::thread::spawn(move || {
        let mut right = instance(1, b, 7);
        right.join();
        while !stopped.load(Ordering::Relaxed) {
            let now = wall_now();
            right.portal.poll(&mut right.paced.engine, now).unwrap();
            std::thread::sleep(StdDuration::from_millis(1));
        }
        // The engine is dropped without a farewell.
    });
    left.join();
    stop.store(true, Ordering::Relaxed);
    right.join().unwrap();
    left.run(3_200);
    let (_, present, stats) = left.portal.peers().next().unwrap();
    assert!(!present);
    assert_eq!((stats.joined, stats.vanished), (1, 0), "it is known to end");
    assert!(
        left.world().link(BAR).dropped > 0,
        "the flow's retransmissions"
    );
}

#[test]
fn a_peer_that_vanishes_takes_its_links_down_and_nothing_else() {
    let [a, b] = Endpoint::udp_pair().unwrap();
    let (stop, right) = right_engine(b);
    let mut left = instance(0, a, 8);
    left.join();
    left.run(200);
    let across = left.world().traffic(TrafficSourceId(0)).received;
    assert!(across > 0);
    stop.store(true, Ordering::Relaxed);
    // This engine ends without a farewell too.
    drop(right.join().unwrap());
    left.run(3_200);
    let (_, present, stats) = left.portal.peers().next().unwrap();
    assert!(!present);
    assert_eq!((stats.joined, stats.vanished), (1, 1));
    assert!(
        left.world().link(BAR).dropped > 0,
        "the flow's retransmissions"
    );
    // The source sends a packet every millisecond, and the last ones are still in flight.
    let within = left.world().traffic(TrafficSourceId(1)).received;
    assert!(within >= 1_195, "{within} of 1200 within the left side");
}

#[test]
fn a_flood_of_nonsense_costs_no_memory() {
    let bind = || UdpSocket::bind("127.0.0.1:0").unwrap();
    let (own, hostile) = (bind(), bind());
    let address = own.local_addr().unwrap();
    let socket = Socket::new(own, hostile.local_addr().unwrap()).unwrap();
    let mut left = instance(0, Endpoint::Udp(socket), 8);
    let before = left.world().packets_alive();
    let mut junk = vec![0x55; 1_400];
    junk[..4].copy_from_slice(b"TP\x01\x00");
    junk[4..8].copy_from_slice(&[1, 0, 0, 0]);
    for round in 0..200u64 {
        for number in 0..50u64 {
            junk[24..32].copy_from_slice(&(round * 50 + number).to_le_bytes());
            let _ = hostile.send_to(&junk, address);
        }
        left.portal
            .poll(&mut left.paced.engine, wall_now())
            .unwrap();
    }
    let (_, present, stats) = left.portal.peers().next().unwrap();
    assert!(!present && stats.hostile > 1_000, "{stats:?}");
    assert_eq!(stats.packets_received, 0);
    assert_eq!(left.world().packets_alive(), before);
}

/// Returns true if this process may use real-time priorities.
fn may_go_first() -> bool {
    let asked = std::thread::spawn(|| set_policy(SchedulingPolicy::First(1)).is_ok());
    asked.join().unwrap()
}

#[test]
fn a_thread_has_priority_while_it_runs_an_engine_and_then_its_old_policy() {
    let allowed = may_go_first();
    for first in [true, false] {
        let [a, _b] = Endpoint::udp_pair().unwrap();
        let mut one = instance(0, a, 1);
        let before = policy();
        assert_eq!(before, Some(SchedulingPolicy::Ordinary));
        let mut during = Vec::new();
        let pause = Pause {
            first,
            ..Pause::default()
        };
        let end = Instant::ZERO + Duration::from_ms(5);
        run(&mut one.paced, &mut one.portal, end, pause, || {
            during.push(policy());
            false
        })
        .unwrap();
        let expected = if first && allowed {
            Some(SchedulingPolicy::First(1))
        } else {
            before
        };
        assert!(!during.is_empty());
        assert!(
            during.iter().all(|policy| *policy == expected),
            "{during:?}"
        );
        assert_eq!(policy(), before);
    }
}
