//! Tests of several engines that follow one clock: in exact mode they wait for one another, and the
//! death of an engine is reported. The tests need no root.

use std::sync::mpsc::channel;
use std::sync::{Arc, Condvar, Mutex};
use std::time::{Duration as StdDuration, Instant as StdInstant};

use timeloom_clock::RateError;
use timeloom_emulation::peering::datagram::Key;
use timeloom_emulation::peering::peer::PeerConfig;
use timeloom_emulation::peering::{Cut, Endpoint, Portal, Ring};
use timeloom_emulation::{
    Emulation, EmulationOptions, EngineGroup, FollowedClock, ManualClock, Portals, Timing,
};
use timeloom_engine::{Engine, Limit};
use timeloom_net::topology::dumbbell;
use timeloom_net::{
    Arrival, FrameView, LinkConfig, NetworkBuilder, Node, Outgoing, Owner, PacketSize, Pattern,
    ReceivedFrame, Resident, TcpConfig, TrafficConfig, World,
};
use timeloom_ptp::Profile;
use timeloom_ptp_net::{ClockCounters, NodeClockOptions, NodeOptions, PtpNode, Role, Transport};
use timeloom_sys::wall_now;
use timeloom_test_support::eventually;
use timeloom_time::{ClockMap, Duration, Instant, Rate, Virtual, Wall};

const LONG: StdDuration = StdDuration::from_secs(120);

/// Creates four hosts on each side of a cable of 1 ms. All of them send datagrams and TCP across
/// it.
fn network() -> (World, Vec<Owner>) {
    let mut network = NetworkBuilder::new(9);
    let access = LinkConfig::new(100_000_000, Duration::from_us(10));
    let trunk = LinkConfig::new(50_000_000, Duration::from_ms(1));
    let made = dumbbell(&mut network, "", 4, &access, &trunk);
    let mut world = network.build().unwrap();
    for (left, right) in made.left.iter().zip(&made.right) {
        let mean = Duration::from_us(900);
        let random = TrafficConfig::udp(Pattern::Poisson { mean }, PacketSize::Fixed(700));
        world.add_traffic(*left, *right, random.clone()).unwrap();
        world.add_traffic(*right, *left, random).unwrap();
        world.add_tcp(*right, *left, TcpConfig::default()).unwrap();
    }
    let side = |node| {
        let name = world.name(Node(node));
        Owner::from(name.starts_with('r'))
    };
    let owners = (0..world.nodes() as u32).map(side).collect();
    (world, owners)
}

/// Clock that stops by itself at an instant.
struct Until(Arc<ManualClock>, Instant<Virtual>);

impl FollowedClock for Until {
    fn map(&self) -> ClockMap<Wall, Virtual> {
        self.0.map()
    }

    fn map_and_stop(&self) -> (ClockMap<Wall, Virtual>, Instant<Virtual>) {
        (self.0.map(), self.1)
    }
}

/// Runs two engines of one network from zero to `end`. `prepare` may change each world before it
/// starts.
fn two(
    make: impl Fn() -> (World, Vec<Owner>),
    (waits, end): (bool, Instant<Virtual>),
    prepare: impl FnMut(Owner, &mut World, &mut EmulationOptions),
) -> (Vec<Emulation>, Arc<ManualClock>) {
    let clock = Arc::new(ManualClock::new(Rate::STOPPED));
    let follow = || Until(Arc::clone(&clock), end);
    (two_by(make, waits, follow, prepare), clock)
}

/// Runs two engines of one network that follow such a clock.
fn two_by<F: FollowedClock + 'static>(
    make: impl Fn() -> (World, Vec<Owner>),
    waits: bool,
    follow: impl Fn() -> F,
    mut prepare: impl FnMut(Owner, &mut World, &mut EmulationOptions),
) -> Vec<Emulation> {
    let (left, right) = Ring::pair(Ring::PACKETS).unwrap();
    left.greet(wall_now());
    right.greet(wall_now());
    let start = |(here, ring): (Owner, Ring)| {
        let (mut world, owners) = make();
        let cut = Cut::new(&world, owners).unwrap();
        cut.apply(&mut world, here);
        let key = Key::new([0; 32]);
        let mut peers = Portal::new(&world, cut, here, key, 1, Limit::default());
        if waits {
            peers.wait_for_others();
        }
        let config = PeerConfig {
            silence: Duration::from_s(600),
            ..PeerConfig::default()
        };
        peers.add(&mut world, 1 - here, Endpoint::Ring(ring), config);
        let mut options = EmulationOptions {
            peers: Some(peers),
            ..EmulationOptions::default()
        };
        prepare(here, &mut world, &mut options);
        let timing = Timing::Follow(Box::new(follow()));
        Emulation::start(world, Portals::new(), timing, options).unwrap()
    };
    [(0, left), (1, right)].map(start).into_iter().collect()
}

/// A clock that stands, except for moves, and what a group of engines has announced to it.
#[derive(Clone, Default)]
struct Standing(Arc<(Mutex<Announced>, Condvar)>);

#[derive(Clone, Copy)]
struct Announced {
    now: Instant<Virtual>,
    rests: bool,
    next: Option<Instant<Virtual>>,
}

impl Default for Announced {
    fn default() -> Self {
        Self {
            now: Instant::ZERO,
            rests: false,
            next: None,
        }
    }
}

impl Standing {
    fn change(&self, act: impl FnOnce(&mut Announced)) {
        act(&mut self.0.0.lock().unwrap());
        self.0.1.notify_all();
    }

    /// Waits until the engines rest; returns their next event.
    fn await_rest(&self) -> Option<Instant<Virtual>> {
        let state = self.0.0.lock().unwrap();
        let (state, late) = (self.0.1)
            .wait_timeout_while(state, LONG, |state| !state.rests)
            .unwrap();
        assert!(!late.timed_out(), "they do not rest at {:?}", state.now);
        state.next
    }
}

impl FollowedClock for Standing {
    fn map(&self) -> ClockMap<Wall, Virtual> {
        ClockMap::new(wall_now(), self.0.0.lock().unwrap().now, Rate::STOPPED)
    }

    fn asleep(&self, next: Option<Instant<Virtual>>) {
        self.change(|state| (state.rests, state.next) = (true, next));
    }

    fn awake(&self) {
        self.change(|state| state.rests = false);
    }
}

fn set_rate(engines: &[Emulation], clock: &Arc<ManualClock>, rate: Rate) {
    clock.set_rate(rate);
    engines.iter().for_each(Emulation::wake);
}

fn wait_until(engine: &Emulation, end: Instant<Virtual>) {
    let began = StdInstant::now();
    while engine.report().expect("it lives").now < end {
        assert!(began.elapsed() < LONG, "it does not get to {end:?}");
        std::thread::sleep(StdDuration::from_millis(5));
    }
}

/// Runs the whole network in one engine until `end`.
fn one(mut world: World, end: Instant<Virtual>) -> World {
    world.note_arrivals();
    let mut single: Engine<World> = Engine::new(world);
    single.with(|world, agenda| world.start(agenda));
    single.run_until(end, u64::MAX);
    single.model
}

/// Each packet is at the same place at the same virtual time as with one engine, however the
/// threads are scheduled. There is a pause in the middle of the run.
#[test]
fn engines_that_wait_have_every_packet_at_the_instant_of_one_engine() {
    let end = Instant::ZERO + Duration::from_ms(300);
    let expected = sorted(one(network().0, end).arrivals());
    assert!(expected.len() > 3_000, "{} packets", expected.len());

    let (engines, clock) = two(network, (true, end), |_, world, _| world.note_arrivals());
    set_rate(&engines, &clock, Rate::ONE);
    wait_until(&engines[0], Instant::ZERO + Duration::from_ms(100));
    set_rate(&engines, &clock, Rate::STOPPED);
    std::thread::sleep(StdDuration::from_millis(20));
    set_rate(&engines, &clock, Rate::ONE);
    let mut found = Vec::new();
    for engine in &engines {
        wait_until(engine, end);
        found.extend(
            engine
                .with(|engine| engine.model.arrivals().to_vec())
                .unwrap(),
        );
        let adjacent = engine.report().unwrap().adjacencies.remove(0);
        assert!(adjacent.lateness.events() > 500, "{adjacent:?}");
        assert_eq!((adjacent.late, adjacent.lost()), (0, 0), "{adjacent:?}");
    }
    assert_eq!(sorted(&found), expected);
}

/// Runs two engines of the network up to `end` by moves of a clock that stands in between: `go`
/// gets the clock, a function that lets the engines run ahead of it, and their next event.
fn by_moves(
    end: Instant<Virtual>,
    go: impl Fn(&Standing, &dyn Fn(Instant<Virtual>) -> Instant<Virtual>, Instant<Virtual>),
) -> Vec<Arrival> {
    let clock = Standing::default();
    let group = EngineGroup::new(2, Box::new(clock.clone()));
    let follow = || clock.clone();
    let engines = two_by(network, true, follow, |here, world, options| {
        world.note_arrivals();
        options.group = Some(group.member(here));
    });
    let all: Vec<&Emulation> = engines.iter().collect();
    let ahead = group.ahead(&all);
    let wakers: Vec<_> = engines.iter().map(Emulation::waker).collect();
    let reach = |limit| {
        let (tell, reached) = channel();
        let arrive = Box::new(move |at| tell.send(at).unwrap());
        // An engine may be awake to show a sign of life.
        match ahead(limit, arrive) {
            true => reached.recv().unwrap(),
            false => clock.await_rest().unwrap(),
        }
    };
    loop {
        let next = clock.await_rest().expect("there is traffic");
        if next > end {
            break;
        }
        go(&clock, &reach, next);
        wakers.iter().for_each(|wake| wake());
    }
    let mut found = Vec::new();
    for engine in &engines {
        let adjacent = engine.report().unwrap().adjacencies.remove(0);
        assert!(adjacent.lateness.events() > 100, "{adjacent:?}");
        assert_eq!((adjacent.late, adjacent.lost()), (0, 0), "{adjacent:?}");
        let arrivals = engine.with(|engine| engine.model.arrivals().to_vec());
        found.extend(arrivals.unwrap());
    }
    found
}

/// The clock skips from event to event of the group, and further where the network runs ahead.
#[test]
fn skipping_engines_have_every_packet_at_the_instant_of_one_engine() {
    let end = Instant::ZERO + Duration::from_ms(100);
    let expected = sorted(one(network().0, end).arrivals());
    assert!(expected.len() > 1_000, "{} packets", expected.len());
    let to_next = by_moves(end, |clock, _, next| {
        clock.change(|state| (state.now, state.rests) = (next, false));
    });
    assert_eq!(sorted(&to_next), expected);
    let ahead = by_moves(end, |clock, reach, _| {
        let now = clock.0.0.lock().unwrap().now;
        let reached = reach((now + Duration::from_ms(7)).min(end));
        clock.change(|state| (state.now, state.rests) = (reached, false));
    });
    assert_eq!(sorted(&ahead), expected);
}

fn sorted(arrivals: &[Arrival]) -> Vec<(Instant<Virtual>, u8, u32, u32)> {
    let all = arrivals.iter();
    let mut all: Vec<_> = all
        .map(|one| (one.at, one.kind as u8, one.flow, one.seq))
        .collect();
    all.sort_unstable();
    all
}

/// Creates a grandmaster, two transparent clocks with a cable of 1 ms between them, and a slave.
/// All have clock errors, and other traffic fills the cable at times.
fn clocks(transport: Transport) -> (World, Vec<Owner>) {
    let mut network = NetworkBuilder::new(4);
    let [gm, slave, from, to] = ["gm", "slave", "from", "to"].map(|name| network.host(name));
    let [s1, s2] = ["s1", "s2"].map(|name| network.switch(name));
    let fast = LinkConfig::new(100_000_000, Duration::from_us(1));
    for (host, switch) in [(gm, s1), (slave, s2), (from, s1), (to, s2)] {
        network.connect(host, switch, fast.clone());
    }
    network.connect(s1, s2, LinkConfig::new(10_000_000, Duration::from_ms(1)));
    let mut world = network.build().unwrap();
    let mean = Duration::from_us(1_500);
    let load = TrafficConfig::udp(Pattern::Poisson { mean }, PacketSize::Fixed(1_400));
    world.add_traffic(from, to, load).unwrap();
    for (node, role, ppb) in [
        (gm, Role::Grandmaster, 0),
        (s1, Role::Transparent, 30_000),
        (s2, Role::Transparent, -45_000),
        (slave, Role::Slave, -20_000),
    ] {
        let mut options = NodeOptions::new(role, Profile::DEFAULT_PEER_TO_PEER);
        options.transport = transport;
        options.clock = NodeClockOptions {
            seed: u64::from(node.0),
            ..NodeClockOptions::default()
        };
        options.clock.oscillator.frequency = RateError::from_ppb(ppb);
        assert!(PtpNode::attach(&mut world, node, &options));
    }
    let east = [slave, to, s2];
    let nodes = (0..world.nodes() as u32).map(Node);
    let owners = nodes
        .map(|node| Owner::from(east.contains(&node)))
        .collect();
    (world, owners)
}

/// Returns the counters and measurements of each clock.
fn tallies(world: &World, owners: &[Owner], here: Owner) -> Vec<(u32, ClockCounters)> {
    let nodes = (0..world.nodes() as u32).filter(|node| owners[*node as usize] == here);
    let clocks =
        nodes.filter_map(|node| Some((node, PtpNode::at(world, Node(node))?.tally().clone())));
    clocks.collect()
}

/// The messages cross the cut over layer 2 and over UDP. The correction field includes the time
/// that they wait in the queue of the cut cable.
#[test]
fn ptp_clocks_of_two_engines_measure_the_same_as_those_of_one() {
    let end = Instant::ZERO + Duration::from_s(12);
    for transport in [Transport::Layer2, Transport::Udp4] {
        let (world, owners) = clocks(transport);
        let all = vec![0; owners.len()];
        let expected = tallies(&one(world, end), &all, 0);
        let slave = expected.iter().find(|(node, _)| *node == 1).unwrap();
        assert!(slave.1.measured >= 3, "{slave:?}");

        let (engines, clock) = two(|| clocks(transport), (true, end), |_, _, _| ());
        set_rate(&engines, &clock, Rate::from_ratio(8, 1).unwrap());
        let mut found = Vec::new();
        for (here, engine) in (0..).zip(&engines) {
            wait_until(engine, end);
            let owners = owners.clone();
            let of = engine.with(move |engine| tallies(&engine.model, &owners, here));
            found.extend(of.unwrap());
        }
        found.sort_by_key(|(node, _)| *node);
        assert_eq!(found, expected);
    }
}

/// Resident program that panics at an instant.
#[derive(Debug)]
struct Faulty(Instant<Virtual>);

impl Resident for Faulty {
    fn wants(&self, _: &FrameView<'_>) -> bool {
        false
    }
    fn handle_frame(&mut self, _: Instant<Virtual>, _: &ReceivedFrame<'_>, _: &mut Outgoing) {}
    fn handle_wake(&mut self, _: Instant<Virtual>, _: &mut Outgoing) {
        panic!("the faulty one is due");
    }
    fn next_wake(&self) -> Option<Instant<Virtual>> {
        Some(self.0)
    }
}

#[test]
fn an_engine_that_dies_is_told_of_and_the_other_goes_on() {
    for waits in [false, true] {
        let (told, deaths) = channel();
        let for_ever = Instant::FAR_FUTURE;
        let (mut engines, clock) = two(network, (waits, for_ever), |here, world, options| {
            let told = told.clone();
            options.died = Some(Box::new(move |what| {
                told.send((here, what.to_owned())).unwrap();
            }));
            if here == 1 {
                let right = (0..)
                    .map(Node)
                    .find(|node| world.name(*node) == "r0")
                    .unwrap();
                let fault = Faulty(Instant::ZERO + Duration::from_ms(50));
                assert!(world.attach(right, Box::new(fault)));
            }
        });
        set_rate(&engines, &clock, Rate::ONE);
        let told = deaths.recv_timeout(LONG).expect("it is told");
        assert_eq!(told, (1, "the faulty one is due".to_owned()));
        wait_until(&engines[0], Instant::ZERO + Duration::from_ms(200));
        let adjacent = engines[0].report().unwrap().adjacencies.remove(0);
        assert!(!adjacent.is_present, "{adjacent:?}");
        // The clock goes on, and with it the traffic.
        eventually("a packet to the dead engine is lost on the link", || {
            let dropped = engines[0].with(|engine| {
                let world = &engine.model;
                let links = world.cables().map(|cable| world.link(cable.port).dropped);
                links.sum::<u64>()
            });
            dropped > Some(0)
        });
        assert!(engines.pop().unwrap().stop().is_none(), "it has died");
        let report = engines.pop().unwrap().stop().expect("it lives");
        assert!(report.events > 0);
    }
}

/// The thread that moves the clock meets the fault; the engine's own thread dies of it.
#[test]
fn an_engine_that_dies_ahead_of_the_clock_is_told_of_and_the_other_goes_on() {
    let (told, deaths) = channel();
    let clock = Standing::default();
    let group = EngineGroup::new(2, Box::new(clock.clone()));
    let follow = || clock.clone();
    let engines = two_by(network, true, follow, |here, world, options| {
        options.group = Some(group.member(here));
        let told = told.clone();
        options.died = Some(Box::new(move |what| {
            told.send((here, what.to_owned())).unwrap();
        }));
        if here == 1 {
            let mut nodes = (0..).map(Node);
            let right = nodes.find(|node| world.name(*node) == "r0").unwrap();
            let fault = Faulty(Instant::ZERO + Duration::from_ms(50));
            assert!(world.attach(right, Box::new(fault)));
        }
    });
    let all: Vec<&Emulation> = engines.iter().collect();
    let ahead = group.ahead(&all);
    let wake = |at| {
        clock.change(|state| (state.now, state.rests) = (at, false));
        engines.iter().for_each(Emulation::wake);
    };
    let mut has_died = false;
    let end = Instant::ZERO + Duration::from_ms(200);
    while clock.0.0.lock().unwrap().now < end {
        let next = clock.await_rest().expect("there is traffic");
        let (tell, reached) = channel();
        let arrive = Box::new(move |at| tell.send(at).unwrap());
        if ahead(end, arrive) {
            wake(reached.recv().unwrap());
            continue;
        }
        // As the owner of a clock does, it goes to the next event.
        wake(next.min(end));
        if let Ok(death) = deaths.recv_timeout(StdDuration::from_millis(20)) {
            assert_eq!(death, (1, "the faulty one is due".to_owned()));
            has_died = true;
        }
    }
    assert!(has_died);
    wait_until(&engines[0], end);
    let adjacent = engines[0].report().unwrap().adjacencies.remove(0);
    assert!(!adjacent.is_present, "{adjacent:?}");
}
