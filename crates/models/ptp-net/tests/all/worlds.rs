//! Simulated worlds with known true time: transparent clocks remove the queueing delay of Syncs
//! from the measurement, and plain switches do not.
//!
//! `TIMELOOM_SEED=n` sets another seed; a failing test prints its seed.

use std::net::Ipv4Addr;
use std::sync::{Arc, Mutex};

use timeloom_clock::RateError;
use timeloom_clock::host::HostOscillator;
use timeloom_engine::Engine;
use timeloom_net::{
    LinkConfig, NetworkBuilder, Node, Pattern, QueueConfig, Size, TrafficConfig, World,
};
use timeloom_ptp::{PortState, Profile};
use timeloom_ptp_net::{
    ClockOptions, Event, NodeOptions, PtpNode, Role, SyncMeasurement, Transport,
};
use timeloom_time::{Duration, Instant};

/// Chain of `switches` switches at 100 Mbit/s, with a grandmaster at one end and a slave at the
/// other. Bursts of other traffic travel between the two ends in both directions.
struct Case {
    seed: u64,
    switches: usize,
    profile: Profile,
    transport: Transport,
    transparent: bool,
    queue: QueueConfig,
}

/// Timestamps have the resolution of a 125 MHz counter.
const RESOLUTION_NS: i64 = 8;
const DELAY: Duration = Duration::from_us(5);

fn seed(base: u64) -> u64 {
    let set = std::env::var("TIMELOOM_SEED").ok();
    set.map_or(base, |text| {
        text.parse::<u64>().expect("TIMELOOM_SEED is a number") * 1_000_003 + base
    })
}

fn fast(profile: Profile) -> Profile {
    Profile {
        log_sync_interval: -7,
        log_delay_interval: -4,
        log_announce_interval: -2,
        ..profile
    }
}

impl Case {
    fn new(base: u64, profile: Profile) -> Self {
        Self {
            seed: seed(base),
            switches: 3,
            profile: fast(profile),
            transport: Transport::Layer2,
            transparent: true,
            queue: QueueConfig::DropTail { packets: 1_000 },
        }
    }

    fn options(&self, role: Role, frequency_ppb: i64, number: u64) -> NodeOptions {
        let mut options = NodeOptions::new(role, self.profile);
        options.transport = self.transport;
        options.clock = ClockOptions {
            oscillator: HostOscillator {
                frequency: RateError::from_ppb(frequency_ppb),
                wander: RateError::from_ppt(100),
                ..HostOscillator::default()
            },
            seed: self.seed ^ number << 8,
            epoch: Instant::from_ns(1_700_000_000_000_000_000),
            offset: Duration::from_ns(frequency_ppb * 77),
            resolution: Duration::from_ns(RESOLUTION_NS),
        };
        options
    }

    fn build(&self) -> (World, Node, Vec<Node>, Node) {
        let mut network = NetworkBuilder::new(self.seed);
        let link = LinkConfig::new(100_000_000, DELAY).with_queue(self.queue.clone());
        let hosts = ["gm", "slave", "left", "right"].map(|name| network.host(name));
        let [gm, slave, left, right] = hosts;
        let switches: Vec<Node> = (0..self.switches)
            .map(|n| network.switch(format!("s{n}")))
            .collect();
        for pair in switches.windows(2) {
            network.connect(pair[0], pair[1], link.clone());
        }
        let (first, last) = (switches[0], switches[self.switches - 1]);
        for (host, switch) in [(gm, first), (slave, last)] {
            network.connect(host, switch, link.clone());
        }
        // The links to the senders of traffic are faster, so that the queue is in front of the
        // trunk.
        let fast = LinkConfig::new(1_000_000_000, DELAY);
        network.connect(left, first, fast.clone());
        network.connect(right, last, fast);
        let mut world = network.build().unwrap();
        let bursts = Pattern::OnOff {
            rate_bps: 150_000_000,
            mean_on: Duration::from_ms(3),
            mean_off: Duration::from_ms(5),
        };
        for (from, to) in [(left, right), (right, left)] {
            let traffic = TrafficConfig::udp(bursts.clone(), Size::Exponential(700.0));
            world.add_traffic(from, to, traffic).unwrap();
        }
        assert!(PtpNode::attach(
            &mut world,
            gm,
            // The grandmaster sends true time, so that the slave's true offset is known.
            &NodeOptions {
                clock: ClockOptions {
                    epoch: Instant::from_ns(1_700_000_000_000_000_000),
                    resolution: Duration::from_ns(RESOLUTION_NS),
                    ..ClockOptions::default()
                },
                ..self.options(Role::Grandmaster, 0, 0)
            }
        ));
        let steered = self.options(Role::Slave, 18_000, 1);
        assert!(PtpNode::attach(&mut world, slave, &steered));
        if self.transparent {
            for (n, switch) in switches.iter().enumerate() {
                let ppb = [-40_000, 55_000, 12_345][n % 3];
                let options = self.options(Role::Transparent, ppb, 2 + n as u64);
                assert!(PtpNode::attach(&mut world, *switch, &options));
            }
        }
        (world, gm, switches, slave)
    }

    /// Returns the slave's measurements from ten seconds on, for `for_s` seconds.
    fn measure(&self, for_s: i64) -> (Vec<SyncMeasurement>, Engine<World>, Vec<Node>, Node) {
        let (mut world, _, switches, slave) = self.build();
        let seen = Arc::new(Mutex::new(Vec::new()));
        let sink = Arc::clone(&seen);
        PtpNode::at_mut(&mut world, slave)
            .unwrap()
            .observe(Box::new(move |event| {
                if let Event::Measured(measured, _) = event {
                    sink.lock().unwrap().push(*measured)
                }
            }));
        let mut engine = Engine::new(world);
        engine.with(|world, agenda| world.start(agenda));
        let warm = Instant::ZERO + Duration::from_s(10);
        engine.run_until(warm + Duration::from_s(for_s), u64::MAX);
        let seen = seen.lock().unwrap();
        let late = seen.iter().filter(|measured| measured.at > warm).copied();
        (late.collect(), engine, switches, slave)
    }
}

/// Returns the median and the maximum of the absolute errors, in ns.
fn spread(measured: &[SyncMeasurement]) -> (f64, f64) {
    let mut sizes: Vec<f64> = measured.iter().map(|m| m.error_ns().abs()).collect();
    sizes.sort_by(f64::total_cmp);
    (sizes[sizes.len() / 2], sizes[sizes.len() - 1])
}

/// Four links and three clocks each round two timestamps down, and a delay is half of a difference
/// of four timestamps.
const BOUND_NS: f64 = (RESOLUTION_NS * 2 * 7) as f64;

fn compare(case: &Case) {
    let told = format!("seed {}, {}", case.seed, case.profile.name);
    let (with, engine, switches, slave) = case.measure(20);
    assert!(with.len() > 2_000, "{} Syncs; {told}", with.len());
    let (median, worst) = spread(&with);
    println!(
        "with: median {median} ns, worst {worst} ns of {}; {told}",
        with.len()
    );
    assert!(worst <= BOUND_NS, "{worst} ns; {told}");
    let mut world = engine.model;
    let end = Instant::ZERO + Duration::from_s(30);
    let node = PtpNode::at_mut(&mut world, slave).unwrap();
    assert_eq!(node.tally().state, Some(PortState::Slave));
    let ahead_ns = node.clock().ahead(end, end).as_ns();
    assert!(
        ahead_ns.abs() < 2 * BOUND_NS as i64,
        "{ahead_ns} ns; {told}"
    );
    for switch in &switches {
        let tally = PtpNode::at(&world, *switch).unwrap().tally();
        assert!(tally.relayed > 3_000, "{tally:?}");
    }
    let waited = PtpNode::at(&world, switches[0]).unwrap().tally();
    assert!(
        waited.longest_residence_ns > 1e6,
        "there was a queue to wait in: {waited:?}"
    );

    let plain = Case {
        transparent: false,
        queue: case.queue.clone(),
        ..*case
    };
    let (without, ..) = plain.measure(20);
    assert!(without.len() > 2_000, "{} Syncs; {told}", without.len());
    let (median, worst) = spread(&without);
    println!("without: median {median} ns, worst {worst} ns; {told}");
    assert!(
        median > 100.0 * BOUND_NS && worst > 1e6,
        "{median} {worst}; {told}"
    );
}

#[test]
fn peer_to_peer_on_layer_2() {
    compare(&Case::new(1, Profile::DEFAULT_PEER_TO_PEER));
}

#[test]
fn peer_to_peer_in_udp() {
    compare(&Case {
        transport: Transport::Udp4,
        ..Case::new(2, Profile::DEFAULT_PEER_TO_PEER)
    });
}

#[test]
fn end_to_end_on_layer_2_and_in_udp() {
    for (base, transport) in [(3, Transport::Layer2), (4, Transport::Udp4)] {
        compare(&Case {
            transport,
            ..Case::new(base, Profile::DEFAULT)
        });
    }
}

#[test]
fn queues_with_their_own_order_report_departures() {
    let case = Case {
        queue: QueueConfig::CoDel {
            target: Duration::from_ms(5),
            interval: Duration::from_ms(100),
            packets: 1_000,
            ecn: false,
        },
        ..Case::new(5, Profile::DEFAULT_PEER_TO_PEER)
    };
    let (with, engine, switches, _) = case.measure(20);
    let (_, worst) = spread(&with);
    assert!(with.len() > 1_000, "{}", with.len());
    assert!(worst <= BOUND_NS, "{worst} ns; seed {}", case.seed);
    let tally = PtpNode::at(&engine.model, switches[0]).unwrap().tally();
    assert!(tally.longest_residence_ns > 1e6, "{tally:?}");
}

#[test]
fn the_same_seed_gives_the_same_measurements() {
    let run = |base| Case::new(base, Profile::DEFAULT_PEER_TO_PEER).measure(1).0;
    assert_eq!(run(6), run(6));
    assert_ne!(run(6), run(7));
}

#[test]
fn the_power_profile_with_its_tag_passes() {
    let mut case = Case::new(8, Profile::C37_238_2011);
    case.profile.announce_receipt_timeout = 3;
    let (with, ..) = case.measure(5);
    let (_, worst) = spread(&with);
    assert!(
        with.len() > 500 && worst <= BOUND_NS,
        "{} {worst}",
        with.len()
    );
}

#[test]
fn nodes_that_cannot_have_a_clock_are_refused() {
    let mut network = NetworkBuilder::new(1);
    let (a, s, r, b) = (
        network.host("a"),
        network.switch("s"),
        network.router("r"),
        network.host("b"),
    );
    let link = LinkConfig::new(1_000_000_000, Duration::ZERO);
    network.connect(a, s, link.clone());
    network.connect(s, r, link.clone());
    network.connect(r, b, link);
    let mut world = network.build().unwrap();
    let profile = Profile::DEFAULT;
    let mut attach =
        |node, role| PtpNode::attach(&mut world, node, &NodeOptions::new(role, profile));
    assert!(!attach(a, Role::Transparent));
    assert!(!attach(s, Role::Grandmaster));
    assert!(!attach(r, Role::Transparent) && !attach(r, Role::Grandmaster));
    assert!(attach(a, Role::Grandmaster) && attach(s, Role::Transparent));
    assert!(PtpNode::at(&world, b).is_none() && PtpNode::at(&world, s).is_some());
    assert_eq!(
        world.address(world.port_of(a).unwrap()),
        Ipv4Addr::new(10, 0, 0, 1)
    );
}
