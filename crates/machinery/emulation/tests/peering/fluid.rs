//! Tests of fluid between several engines, compared with the same fluid in one engine.

use timeloom_emulation::peering::Cut;
use timeloom_emulation::peering::exact::{self, Shared};
use timeloom_engine::Engine;
use timeloom_net::topology::dumbbell;
use timeloom_net::{
    Control, FluidConfig, FluidId, FluidPattern, FluidStats, LinkConfig, NetworkBuilder, Node,
    Owner, PacketSize, Pattern, QueueConfig, TrafficConfig, TrafficSourceId, TrafficStats, World,
};
use timeloom_time::{Duration, Instant, Virtual};

const END: Instant<Virtual> = Instant::from_ns(4_000_000_000);
const TRUNK_BPS: u64 = 100_000_000;

/// Creates four pairs of hosts at a trunk of 100 Mbit/s and 5 ms. Each pair has a fluid with one of
/// `patterns`, and a packet source shares the trunk as a probe.
fn network(patterns: &[FluidPattern]) -> (World, Vec<FluidId>, TrafficSourceId) {
    let mut network = NetworkBuilder::new(3);
    let queue = QueueConfig::DropTail { packets: 100 };
    let access = LinkConfig::new(1_000_000_000, Duration::from_ms(1));
    let trunk = LinkConfig::new(TRUNK_BPS, Duration::from_ms(5)).with_queue(queue);
    let ends = dumbbell(&mut network, "", 5, &access, &trunk);
    let mut world = network.build().unwrap();
    let pairs = patterns.iter().zip(ends.left.iter().zip(&ends.right));
    let flows = pairs.map(|(pattern, (from, to))| {
        let config = FluidConfig::new(pattern.clone());
        world.add_fluid(*from, *to, config).unwrap()
    });
    let flows = flows.collect();
    let mean = Duration::from_ms(2);
    let probe = TrafficConfig::udp(Pattern::Poisson { mean }, PacketSize::Fixed(100));
    let probe = world
        .add_traffic(ends.left[4], ends.right[4], probe)
        .unwrap();
    (world, flows, probe)
}

/// Results of the flows, summed over all engines, and of the probe.
#[derive(Debug)]
struct Found {
    flows: Vec<FluidStats>,
    probe: TrafficStats,
}

fn found(worlds: &[World], flows: &[FluidId], probe: TrafficSourceId) -> Found {
    let sum = |flow: &FluidId| {
        let mut sum = FluidStats::default();
        for one in worlds.iter().map(|world| world.fluid(*flow)) {
            sum.sent_bytes += one.sent_bytes;
            sum.delivered_bytes += one.delivered_bytes;
            sum.lost_bytes += one.lost_bytes;
            sum.waiting_bytes += one.waiting_bytes;
        }
        sum
    };
    let of_receiver = worlds.iter().map(|world| world.traffic(probe));
    Found {
        flows: flows.iter().map(sum).collect(),
        probe: of_receiver.max_by_key(|stats| stats.received).unwrap(),
    }
}

fn alone(patterns: &[FluidPattern]) -> Found {
    let (world, flows, probe) = network(patterns);
    let mut engine: Engine<World> = Engine::new(world);
    engine.with(|world, agenda| world.start(agenda));
    engine.run_until(END, u64::MAX);
    found(&[engine.model], &flows, probe)
}

/// Runs the network in as many engines as the results of `owner` require.
fn in_parts(patterns: &[FluidPattern], owner: impl Fn(&str) -> Owner) -> Found {
    let (world, flows, probe) = network(patterns);
    let nodes = (0..world.nodes() as u32).map(Node);
    let owners = nodes.map(|node| owner(world.name(node))).collect();
    let cut = Cut::new(&world, owners).unwrap();
    let threads = Shared::new(cut.engines()).into_iter().enumerate();
    let threads: Vec<_> = threads
        .map(|(here, mut transport)| {
            let (cut, part) = (cut.clone(), cut.part(&world, here as Owner));
            std::thread::spawn(move || {
                let mut engine: Engine<World> = Engine::new(part);
                engine.with(|world, agenda| world.start(agenda));
                exact::run(&mut engine, &cut, &mut transport, END).expect("all stay");
                engine.model
            })
        })
        .collect();
    let worlds = threads.into_iter().map(|thread| thread.join().unwrap());
    found(&worlds.collect::<Vec<_>>(), &flows, probe)
}

fn sides(name: &str) -> Owner {
    Owner::from(name.starts_with('r'))
}

/// Assigns the hosts on the left, the routers, and the hosts on the right to three engines. Each
/// path is then cut twice.
fn thirds(name: &str) -> Owner {
    match name {
        "left" | "right" => 1,
        _ => 2 * sides(name),
    }
}

fn near(a: f64, b: f64, share: f64) -> bool {
    (a - b).abs() <= share * a.max(b).max(1.0)
}

/// Asserts that the fluid that was sent but not received is less than the cut links can hold.
fn assert_conserved(found: &Found) {
    for flow in &found.flows {
        let known = flow.delivered_bytes + flow.lost_bytes + flow.waiting_bytes;
        let under_way = flow.sent_bytes - known;
        let most = TRUNK_BPS as f64 / 8.0 * 0.02;
        assert!(under_way >= -1.0 && under_way <= 2.0 * most, "{flow:?}");
    }
}

#[test]
fn fluid_that_crosses_is_that_of_one_engine() {
    let patterns = [
        FluidPattern::Constant {
            rate_bps: 20_000_000,
        },
        FluidPattern::Poisson {
            rate_bps: 10_000_000,
        },
        FluidConfig::tcp(Control::NewReno).pattern,
        FluidConfig::tcp(Control::Cubic).pattern,
    ];
    let one = alone(&patterns);
    for owner in [sides, thirds] {
        let parts = in_parts(&patterns, owner);
        assert_conserved(&parts);
        let both = one.flows.iter().zip(&parts.flows);
        for ((one, parts), share) in both.zip([0.01, 0.01, 0.15, 0.15]) {
            let (a, b) = (one.delivered_bytes, parts.delivered_bytes);
            assert!(near(a, b, share), "{one:?} {parts:?}");
        }
        let sum = |found: &Found| found.flows.iter().map(|flow| flow.delivered_bytes).sum();
        let (a, b): (f64, f64) = (sum(&one), sum(&parts));
        assert!(near(a, b, 0.02), "{a} {b} of all");
        // Packets queue behind fluid, whichever engine the fluid is from.
        let wait = |found: &Found| found.probe.delay_sum_ns as f64 / found.probe.received as f64;
        assert!(near(wait(&one), wait(&parts), 0.15), "{one:?} {parts:?}");
    }
}

#[test]
fn an_overload_beyond_the_cut_is_lost_there_and_the_sender_hears_of_it() {
    let rate_bps = 2 * TRUNK_BPS;
    let patterns = [FluidPattern::Constant { rate_bps }];
    let one = alone(&patterns);
    // The trunk and its queue belong to the engine of the routers.
    let parts = in_parts(&patterns, thirds);
    assert_conserved(&parts);
    let (a, b) = (one.flows[0], parts.flows[0]);
    assert!(
        near(a.lost_bytes, b.lost_bytes, 0.01) && b.lost_bytes > 0.0,
        "{a:?} {b:?}"
    );

    let tcp = [FluidConfig::tcp(Control::NewReno).pattern];
    let parts = in_parts(&tcp, thirds);
    let flow = parts.flows[0];
    let most = TRUNK_BPS as f64 / 8.0 * (END - Instant::ZERO).as_s_f64();
    assert!(
        flow.lost_bytes > 0.0,
        "its only bottleneck is beyond a cut: {flow:?}"
    );
    assert!(
        flow.lost_bytes < 0.05 * flow.sent_bytes,
        "it slowed down: {flow:?}"
    );
    assert!(flow.delivered_bytes > 0.7 * most, "{flow:?}");
}
