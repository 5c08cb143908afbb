//! Tests of several ends of one line.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration as StdDuration;

use timeloom_agreement::{OnSilence, Settings};
use timeloom_bus::{
    BoundSocket, BusKey, BusPeer, LineSettings, MachineTimeline, MachineWire, NetworkedWire,
    StandaloneWire, Wire, prove,
};
use timeloom_sys::wall_now;
use timeloom_test_support::{eventually, own_address};
use timeloom_time::Duration;

use crate::clock::{CAUSE, Clock};
use crate::wire::Copper;

/// Settings for a wire that does not bounce. A thread that is late makes a pulse shorter than any
/// usual debounce time, and each edge of such a pulse must count.
const CLEAN: LineSettings = LineSettings {
    debounce: Duration::from_ns(1),
    stuck: Duration::from_s(1),
};

/// Duration that is longer than any delay of a thread.
const NEVER: Duration = Duration::from_s(3600);

const NAMES: [&str; 4] = ["a", "b", "c", "d"];

fn short(span_ms: u64) {
    thread::sleep(StdDuration::from_millis(span_ms));
}

/// Creates four machines that are connected by a wire only.
fn alone(copper: &Arc<Copper>, settings: LineSettings) -> Vec<(StandaloneWire, Arc<Clock>)> {
    let machines: Vec<(StandaloneWire, Arc<Clock>)> = NAMES
        .iter()
        .map(|_| {
            let clock = Arc::new(Clock::default());
            let end = StandaloneWire::start(copper.pins(), settings, clock.clone());
            (end.expect("an end of the line"), clock)
        })
        .collect();
    for (end, clock) in &machines {
        assert_eq!(clock.state().goes, None, "the last has not let go");
        end.let_go().expect("it lets go");
    }
    for (end, _) in &machines {
        end.wait_for_start().expect("it begins");
    }
    machines
}

/// Returns the virtual time minus the wall time in nanoseconds; `None` while the clock is stopped.
fn behind(clock: &Clock) -> Option<i64> {
    let goes = clock.state().goes;
    goes.map(|(since, from)| from.as_ns() - since.as_ns())
}

/// Each machine stops late, with a delay of its own. These delays must not add up: after 128 pauses
/// by all machines in turn, each clock has been stopped for as long as the wire was high, to the
/// nanosecond.
#[test]
fn boards_on_a_wire_alone_stand_for_exactly_as_long_as_it_is_high() {
    let copper = Arc::default();
    let machines = alone(&copper, CLEAN);
    for turn in 0..128 {
        let (end, clock) = &machines[turn % 4];
        let at = end.raise(CAUSE).expect("it stands");
        assert_eq!(clock.state().stands, Some(at));
        short(turn as u64 % 3);
        end.lower(CAUSE, at).expect("it goes on");
        let all_run = || machines.iter().all(|(_, clock)| behind(clock).is_some());
        eventually("all go on", all_run);
    }
    // A machine whose thread is late for an edge compensates for it. (If it drives the wire before
    // it has noticed the fall, it sees two pauses as one, and gets the missing running time back.)
    eventually("all have stood for as long", || {
        let behind: Vec<Option<i64>> = machines.iter().map(|it| behind(&it.1)).collect();
        behind[0].is_some() && behind.iter().all(|one| *one == behind[0])
    });
    for (end, _) in &machines {
        assert_eq!(end.halted(), None);
    }
}

/// Pulses are shorter than the debounce time, and late threads detect them all at once. Each clock
/// must have been stopped for the sum of the pulses, to the nanosecond.
#[test]
fn short_pulses_that_are_heard_late_count_on_a_wire_alone() {
    let copper: Arc<Copper> = Arc::default();
    let machines = alone(&copper, LineSettings::default());
    let all = || -> Vec<Option<i64>> { machines.iter().map(|it| behind(&it.1)).collect() };
    let before = all();
    short(20);
    let began = wall_now() - Duration::from_ms(10);
    let pulses: Vec<_> = (0..3)
        .map(|pulse| began + Duration::from_ms(pulse))
        .map(|rises| (rises, rises + Duration::from_us(5)))
        .collect();
    copper.pulses(&pulses);
    eventually("all have stood for so long", || {
        let after = before.iter().map(|one| one.map(|ns| ns - 15_000));
        all().into_iter().eq(after)
    });
    for (end, _) in &machines {
        assert_eq!(end.halted(), None);
    }
}

/// All four machines request holds at the same time, repeatedly. Each is paused while it has a
/// hold.
#[test]
fn boards_on_a_wire_alone_stand_while_any_holds() {
    let copper = Arc::default();
    let machines = alone(&copper, CLEAN);
    thread::scope(|scope| {
        for (index, (end, clock)) in machines.iter().enumerate() {
            scope.spawn(move || {
                for round in 0..50 {
                    let at = end.raise(CAUSE).expect("it stands");
                    short((index + round) as u64 % 3);
                    assert_eq!(clock.state().stands, Some(at));
                    end.lower(CAUSE, at).expect("it lets go");
                }
            });
        }
    });
    let all = || -> Vec<Option<i64>> { machines.iter().map(|it| behind(&it.1)).collect() };
    eventually("all go on alike", || {
        let all = all();
        all[0].is_some() && all.iter().all(|one| *one == all[0])
    });
}

/// Without a network a missed edge cannot be compensated. The machine stops, and reports the
/// reason.
#[test]
fn a_board_alone_that_misses_an_edge_stops_and_says_so() {
    let copper: Arc<Copper> = Arc::default();
    let machines = alone(&copper, CLEAN);
    copper.misses_a_fall(2);
    let at = machines[0].0.raise(CAUSE).expect("it stands");
    machines[0].0.lower(CAUSE, at).expect("it goes on");
    eventually("it is noticed", || machines[2].0.halted().is_some());
    let why = machines[2]
        .0
        .halted()
        .expect("it has just been asked")
        .to_string();
    assert!(
        why.contains("the line is low, but no edge was reported"),
        "{why}"
    );
    eventually("its clock stands for good", || machines[2].1.state().halted);
    assert_eq!(machines[1].0.halted(), None);
}

/// A hold fails if the output cannot be set. The machine then pauses and continues with the others.
#[test]
fn a_board_alone_whose_output_fails_once_goes_on_after_the_next_pause() {
    let copper: Arc<Copper> = Arc::default();
    let machines = alone(&copper, CLEAN);
    copper.breaks(1, true);
    let refused = machines[1].0.raise(CAUSE).expect_err("it cannot drive");
    assert!(refused.to_string().contains("output"), "{refused}");
    copper.breaks(1, false);
    let at = machines[0].0.raise(CAUSE).expect("it stands");
    machines[0].0.lower(CAUSE, at).expect("it goes on");
    // The clock has continued at the start and after this pause.
    eventually("all go on from it", || {
        machines.iter().all(|it| it.1.state().went.len() == 2)
    });
    assert_eq!(machines[1].0.halted(), None);
}

/// Machines that are connected by a wire and a network, with their fault reports.
struct Both {
    ends: Vec<NetworkedWire>,
    clocks: Vec<Arc<Clock>>,
    said: Arc<Mutex<Vec<String>>>,
}

impl Both {
    fn new(copper: &Arc<Copper>, on_silence: OnSilence, stuck: Duration) -> Self {
        let addresses: Vec<SocketAddr> = NAMES.iter().map(|_| own_address()).collect();
        let settings = Settings {
            on_silence,
            patience: Duration::from_s(60),
            beat: Duration::from_ms(20),
            ..Settings::default()
        };
        let said = Arc::new(Mutex::new(Vec::new()));
        let mut both = Self {
            ends: Vec::new(),
            clocks: Vec::new(),
            said: Arc::clone(&said),
        };
        for (here, name) in NAMES.iter().enumerate() {
            let others = NAMES.iter().zip(&addresses).filter(|it| it.0 != name);
            let peers: Vec<BusPeer> = others
                .map(|(name, address)| BusPeer {
                    name: (*name).to_owned(),
                    address: *address,
                    late: false,
                })
                .collect();
            let pins = copper.pins();
            let patience = Duration::from_s(60);
            assert!(prove(&*pins, patience).expect("it is on the line"));
            let timeline = Arc::new(MachineTimeline);
            let bound =
                BoundSocket::listen(addresses[here], BusKey::new(&[3; 32]), timeline, settings);
            let clock = Arc::new(Clock::default());
            let end = bound
                .expect("a socket")
                .start(name, false, &peers, clock.clone());
            let (said, name) = (Arc::clone(&said), *name);
            let warn = Box::new(move |text: &str| {
                said.lock().unwrap().push(format!("{name}: {text}"));
            });
            let settings = LineSettings { stuck, ..CLEAN };
            let wired = NetworkedWire::start(end.expect("an end"), pins, settings, warn);
            both.ends.push(wired.expect("an end of the wire"));
            both.clocks.push(clock);
        }
        for end in &both.ends {
            end.wait_for_start().expect("all are there");
        }
        both
    }

    /// Makes a pause by the machine with this index, and asserts that all machines stop at the same
    /// instant.
    fn pause(&self, index: usize) {
        let at = self.ends[index].raise(CAUSE).expect("the line");
        for clock in &self.clocks {
            assert_eq!(clock.state().stands, Some(at));
        }
        short(3);
        self.ends[index].lower(CAUSE, at).expect("it goes on");
        eventually("all go on", || {
            self.clocks.iter().all(|clock| behind(clock).is_some())
        });
    }

    fn heard(&self, text: &str) -> bool {
        self.said
            .lock()
            .unwrap()
            .iter()
            .any(|said| said.contains(text))
    }

    fn agree(&self) {
        let of = |clock: &Arc<Clock>| clock.state().stood.clone();
        let stood: Vec<_> = self.clocks.iter().map(of).collect();
        assert!(stood.iter().all(|one| *one == stood[0]), "{stood:?}");
        let all: Vec<_> = self.clocks.iter().map(|clock| behind(clock)).collect();
        assert!(all.iter().all(|one| *one == all[0]), "{all:?}");
    }
}

/// With wire and network, every pause is at the same instant on all machines, and there are no
/// faults.
#[test]
fn a_wire_beside_the_network_agrees_on_every_instant() {
    let copper = Arc::default();
    let both = Both::new(&copper, OnSilence::Stop, NEVER);
    for turn in 0..64 {
        both.pause(turn % 4);
    }
    both.agree();
    assert_eq!(*both.said.lock().unwrap(), Vec::<String>::new());
}

/// A machine that is connected by the wire alone pauses the others through the wire.
#[test]
fn a_machine_with_the_wire_alone_holds_machines_with_both() {
    let copper: Arc<Copper> = Arc::default();
    let both = Both::new(&copper, OnSilence::Release, NEVER);
    copper.sticks(true);
    eventually("all stand", || {
        let stands = |clock: &Arc<Clock>| clock.state().stands.is_some();
        both.clocks.iter().all(stands)
    });
    copper.sticks(false);
    eventually("all go on", || {
        both.clocks.iter().all(|clock| behind(clock).is_some())
    });
    both.agree();
}

/// Edges that one machine misses are reported, and do not make any clock wrong.
#[test]
fn missed_edges_are_noticed_and_change_nothing() {
    let copper: Arc<Copper> = Arc::default();
    let both = Both::new(&copper, OnSilence::Stop, Duration::from_s(10));
    both.pause(0);
    copper.misses_a_fall(2);
    both.pause(1);
    eventually("a missed fall is said", || {
        both.heard("c: the pause line, fault 1: the line is low, but no edge was reported")
    });
    copper.cut(3, true);
    // An edge that was late for the previous pause may still count for the first of these pauses.
    eventually("a pause without an edge is said", || {
        both.pause(0);
        both.heard("d: the pause line, fault 1: it was driven for a pause, but no edge")
    });
    copper.cut(3, false);
    both.pause(3);
    both.agree();
    assert_eq!(both.ends[0].faults() + both.ends[1].faults(), 0);
}

/// If a line stays high without a driver, all machines either stop and report the reason, or
/// continue with the network alone.
#[test]
fn a_stuck_line_stops_all_or_counts_no_more() {
    let copper: Arc<Copper> = Arc::default();
    let stop = Both::new(&copper, OnSilence::Stop, Duration::from_ms(400));
    copper.sticks(true);
    for end in &stop.ends {
        eventually("it stops", || end.halted().is_some());
        let why = end.halted().expect("it has just been asked").to_string();
        assert!(
            why.contains("is high, and no host reports driving it"),
            "{why}"
        );
    }
    // A decision is reported first, and executed afterwards.
    eventually("all clocks stand for good", || {
        let halted = |clock: &Arc<Clock>| clock.state().halted;
        stop.clocks.iter().all(halted)
    });
    drop(stop);

    let copper: Arc<Copper> = Arc::default();
    let go_on = Both::new(&copper, OnSilence::Release, Duration::from_ms(400));
    copper.sticks(true);
    for name in NAMES {
        let said =
            format!("{name}: the pause line, fault 1: the line is high, and no machine drives");
        eventually("it is said", || go_on.heard(&said));
    }
    eventually("all go on", || {
        go_on.clocks.iter().all(|clock| behind(clock).is_some())
    });
    go_on.pause(2);
    copper.sticks(false);
    for name in NAMES {
        let said = format!("{name}: the pause line works again");
        eventually("it is over", || go_on.heard(&said));
    }
    go_on.pause(1);
    go_on.agree();
}

/// An end that ends its participation releases the wire.
#[test]
fn an_end_that_ends_lets_go_of_the_wire() {
    let copper: Arc<Copper> = Arc::default();
    let both = Both::new(&copper, OnSilence::Release, NEVER);
    both.ends[1].raise(CAUSE).expect("the line");
    let spare = copper.pins();
    let second = Duration::from_s(60);
    assert!(!prove(&*spare, second).expect("it is held already"));
    both.ends[1].end();
    assert!(prove(&*spare, second).expect("the wire is free"));
}
