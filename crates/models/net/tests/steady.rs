//! One seed gives one run, and a run in the steady state allocates nothing.

#[path = "all/common/mod.rs"]
mod common;

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::fmt::Write;

use common::{GBIT, MBIT, bare, ms, run};
use timeloom_engine::queue::{EventQueue, Heap4, Wheel};
use timeloom_engine::{Agenda, Engine, Event, Model};
use timeloom_net::topology::{Campus, campus, dumbbell};
use timeloom_net::{
    Control, FluidConfig, FluidId, FluidPattern, Impairment, NetworkBuilder, Node, PacketSize,
    Pattern, QueueConfig, TcpConfig, TrafficConfig, World,
};
use timeloom_time::Duration;

thread_local! {
    static COUNT: Cell<u64> = const { Cell::new(0) };
    static BYTES: Cell<i64> = const { Cell::new(0) };
}

/// Allocator that counts per thread, because the test harness allocates in its own threads.
struct Counting;

// SAFETY: every call is forwarded to the system's allocator unchanged.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        COUNT.with(|count| count.set(count.get() + 1));
        BYTES.with(|bytes| bytes.set(bytes.get() + layout.size() as i64));
        // SAFETY: the caller's guarantee about `layout` is passed on.
        unsafe { System.alloc(layout) }
    }
    unsafe fn dealloc(&self, at: *mut u8, layout: Layout) {
        BYTES.with(|bytes| bytes.set(bytes.get() - layout.size() as i64));
        // SAFETY: `at` came from the system's allocator with this layout.
        unsafe { System.dealloc(at, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// Returns a dumbbell whose bottleneck is fully loaded.
fn loaded() -> Engine<World> {
    let mut network = NetworkBuilder::new(2);
    let access = bare(GBIT, Duration::from_ms(1), 200);
    let bottleneck = bare(GBIT, Duration::from_us(100), 200);
    let ends = dumbbell(&mut network, "", 8, &access, &bottleneck);
    let mut world = network.build().unwrap();
    for (from, to) in ends.left.iter().zip(&ends.right) {
        world.add_tcp(*from, *to, TcpConfig::default()).unwrap();
        let datagrams = Pattern::Poisson {
            mean: Duration::from_ms(1),
        };
        let datagrams = TrafficConfig::udp(datagrams, PacketSize::Exponential(500.0));
        world.add_traffic(*from, *to, datagrams).unwrap();
    }
    run(world, ms(2_000))
}

#[test]
fn no_packet_allocates_in_steady_state() {
    let mut engine = loaded();
    let (hops, before) = (engine.model.counters().hops, COUNT.with(Cell::get));
    engine.run_until(ms(4_000), u64::MAX);
    let hops = engine.model.counters().hops - hops;
    let allocations = COUNT.with(Cell::get) - before;
    assert!(hops > 500_000, "{hops}");
    // A vector may still grow once, if the largest number of packets occurs late.
    assert!(allocations <= 2, "{allocations} allocations in {hops} hops");
}

#[test]
fn hosts_and_flows_are_small() {
    let bytes = || BYTES.with(Cell::get);
    let start = bytes();
    let mut network = NetworkBuilder::new(1);
    let link = bare(GBIT, Duration::from_ms(1), 100);
    let ends = dumbbell(&mut network, "", 2_000, &link, &link);
    let mut world = network.build().unwrap();
    // The whole network in one engine, with the state of all links.
    let whole = world.part(&vec![0; world.nodes()].into(), 0);
    let per_host = (bytes() - start) / 4_000;
    drop(whole);
    let start = bytes();
    for (from, to) in ends.left.iter().zip(&ends.right) {
        world.add_tcp(*from, *to, TcpConfig::default()).unwrap();
    }
    let per_flow = (bytes() - start) / 2_000;
    println!("{per_host} bytes per host with its link, {per_flow} per flow");
    assert!(
        per_host < 1_024 && per_flow < 2_048,
        "{per_host} {per_flow}"
    );
}

/// Returns a ring of four sites, each with 500 hosts, a flow and a source; also returns the site of
/// each node.
fn sites() -> (World, Vec<u16>) {
    let mut network = NetworkBuilder::new(1);
    let link = bare(GBIT, Duration::from_ms(1), 100);
    let ends: Vec<_> = (["a", "b", "c", "d"].iter())
        .map(|site| dumbbell(&mut network, site, 250, &link, &link))
        .collect();
    let at = |name: &str| {
        let mut nodes = network.nodes();
        nodes
            .find(|(other, _)| other == name)
            .expect("it is there")
            .1
    };
    let routers = ["aleft", "bleft", "cleft", "dleft"].map(at);
    for place in 0..4 {
        network.connect(routers[place], routers[(place + 1) % 4], link.clone());
    }
    let mut world = network.build().unwrap();
    for (from, to) in ends
        .iter()
        .flat_map(|ends| ends.left.iter().zip(&ends.right))
    {
        world.add_tcp(*from, *to, TcpConfig::default()).unwrap();
        let datagrams = TrafficConfig::udp(
            Pattern::Constant { rate_bps: 8_000 },
            PacketSize::Fixed(100),
        );
        world.add_traffic(*from, *to, datagrams).unwrap();
    }
    let site = |node: u32| u16::from(world.name(Node(node)).as_bytes()[0] - b'a');
    let owners = (0..world.nodes() as u32).map(site).collect();
    (world, owners)
}

#[test]
fn an_engine_holds_its_own_part_only() {
    let bytes = || BYTES.with(Cell::get);
    let (world, owners) = sites();
    let start = bytes();
    let whole = world.part(&vec![0; owners.len()].into(), 0);
    let of_one = bytes() - start;
    assert!(whole.state_bytes() as i64 <= of_one);

    let owners = owners.into();
    let start = bytes();
    let parts: Vec<World> = (0..4).map(|here| world.part(&owners, here)).collect();
    let of_four = bytes() - start;
    println!("one engine {of_one} bytes, four {of_four}");
    // The engines share the constant data, and need only a few bytes for each node of another
    // engine.
    assert!(
        of_four * 10 < of_one * 12,
        "four engines {of_four}, one {of_one}"
    );
    for part in parts {
        let (own, all) = (part.state_bytes(), whole.state_bytes());
        assert!(own * 10 < all * 3, "{own} of {all} bytes");
    }
}

/// Returns a dumbbell of 10 Gbit/s with 10,000 fluid flows of all kinds on 100 pairs of hosts, and
/// one TCP flow of packets.
fn flooded(rate_bps: u64) -> (Engine<World>, i64) {
    let mut network = NetworkBuilder::new(1);
    let access = bare(10 * GBIT, Duration::from_ms(1), 1_000);
    let bottleneck = bare(10 * GBIT, Duration::from_ms(5), 2_000);
    let ends = dumbbell(&mut network, "", 100, &access, &bottleneck);
    let mut world = network.build().unwrap();
    world
        .add_tcp(ends.left[0], ends.right[0], TcpConfig::default())
        .unwrap();
    let start = BYTES.with(Cell::get);
    for index in 0..10_000 {
        let pattern = match index % 4 {
            0 => FluidPattern::Constant { rate_bps },
            1 => FluidPattern::Poisson { rate_bps },
            2 => FluidPattern::OnOff {
                rate_bps: 2 * rate_bps,
                mean_on: Duration::from_ms(50),
                mean_off: Duration::from_ms(50),
            },
            _ => FluidConfig::tcp(Control::Cubic).pattern,
        };
        let (from, to) = (ends.left[index % 100], ends.right[index % 100]);
        world
            .add_fluid(from, to, FluidConfig::new(pattern))
            .unwrap();
    }
    let bytes = (BYTES.with(Cell::get) - start) / 10_000;
    (run(world, ms(200)), bytes)
}

#[test]
fn ten_thousand_fluid_flows_are_small_and_cost_the_same_at_any_rate() {
    for rate_bps in [100_000, 800_000] {
        let (mut engine, per_flow) = flooded(rate_bps);
        let before = COUNT.with(Cell::get);
        let (events, hops) = (engine.handled(), engine.model.counters().hops);
        engine.run_until(ms(400), u64::MAX);
        let allocations = COUNT.with(Cell::get) - before;
        assert!(allocations <= 2, "{allocations} allocations");
        let events = engine.handled() - events;
        let hops = engine.model.counters().hops - hops;
        println!("{per_flow} bytes per fluid flow, {events} events, {hops} of packets");
        assert!(per_flow < 768, "{per_flow} bytes");
        // There is one event for each of 200 steps, whatever the load; all others are of the TCP
        // flow.
        assert!(events <= 210 + 2 * hops, "{events} events");
        let fluid = |index| engine.model.fluid(FluidId(index));
        let sent: f64 = (0..10_000).map(|index| fluid(index).sent_bytes).sum();
        assert!(sent > 0.4 * 7_500.0 * rate_bps as f64 / 8.0, "{sent}");
    }
}

/// World that records each of its events.
struct Traced {
    world: World,
    trace: String,
}

impl<Q: EventQueue> Model<Q> for Traced {
    fn handle(&mut self, event: Event, agenda: &mut Agenda<Q>) {
        writeln!(self.trace, "{event:?}").unwrap();
        self.world.handle(event, agenda);
    }
}

/// Returns the events of a campus network with all random features.
fn history<Q: EventQueue>(seed: u64) -> String {
    let mut network = NetworkBuilder::new(seed);
    let wire = Impairment {
        loss: 0.01,
        duplication: 0.01,
        jitter: Duration::from_us(50),
        jitter_reorders: true,
        reordering: 0.01,
    };
    let codel = QueueConfig::CoDel {
        target: Duration::from_ms(5),
        interval: Duration::from_ms(100),
        packets: 100,
        ecn: false,
    };
    let link = bare(10 * MBIT, Duration::from_ms(1), 20);
    let shape = Campus {
        backbone: 3,
        buildings: 1,
        lans: 1,
        hosts: 4,
        trunk: link.clone().with_impairment(wire).with_queue(codel),
        lan: link,
    };
    let hosts = campus(&mut network, "", &shape);
    let mut world = network.build().unwrap();
    for index in 0..hosts.len() {
        let (from, to) = (hosts[index], hosts[(index + 5) % hosts.len()]);
        let control = [Control::NewReno, Control::Cubic][index % 2];
        let config = TcpConfig {
            control,
            ..TcpConfig::default()
        };
        world.add_tcp(from, to, config).unwrap();
        let bursts = Pattern::OnOff {
            rate_bps: MBIT,
            mean_on: Duration::from_ms(20),
            mean_off: Duration::from_ms(20),
        };
        let bursts = TrafficConfig::udp(bursts, PacketSize::Fixed(500));
        world.add_traffic(from, to, bursts).unwrap();
    }
    // Both are hosts of one LAN, because the trunks do not support fluid.
    let (from, to) = (hosts[0], hosts[1]);
    let rate_bps = 3 * MBIT;
    for pattern in [
        FluidPattern::Poisson { rate_bps },
        FluidConfig::tcp(Control::NewReno).pattern,
    ] {
        let fluid = FluidConfig::new(pattern);
        world.add_fluid(from, to, fluid).unwrap();
    }
    let trace = String::new();
    let mut engine: Engine<Traced, Q> = Engine::new(Traced { world, trace });
    engine.with(|model, agenda| model.world.start(agenda));
    engine.run_until(ms(400), u64::MAX);
    let Traced { world, mut trace } = engine.model;
    write!(trace, "{:?}", world.counters()).unwrap();
    trace
}

#[test]
fn the_same_seed_gives_the_same_bytes() {
    let first = history::<Wheel>(7);
    assert!(first.lines().count() > 10_000);
    assert!(first == history::<Wheel>(7), "two runs differ");
    assert!(first == history::<Heap4>(7), "two queues differ");
    assert!(first != history::<Wheel>(8), "the seed does nothing");
}
