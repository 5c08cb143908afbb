//! Tests of the bus with many threads, on a simulated testbed that checks the commands.

use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering::SeqCst};
use std::sync::mpsc::{Receiver, channel};
use std::sync::{Arc, Barrier, Mutex};
use std::thread;
use std::time::Duration as StdDuration;

use timeloom_bus::{Bus, BusError, FreeRunning, HoldRecord, RecordKind, Testbed, TestbedError};
use timeloom_random::SplitMix64;
use timeloom_time::{Duration, Instant, Virtual};

/// Testbed whose clock advances by one with every pause, and which detects commands in the wrong
/// order.
#[derive(Default)]
struct Simulated {
    standing: AtomicBool,
    clock: AtomicI64,
    commands_under_way: AtomicU64,
    edge_takes: StdDuration,
    pauses_to_refuse: AtomicU64,
    refuse_resume: AtomicBool,
    panic_on_pause: AtomicBool,
}

impl Simulated {
    fn alone<T>(&self, act: impl FnOnce() -> T) -> T {
        assert_eq!(
            self.commands_under_way.fetch_add(1, SeqCst),
            0,
            "two commands at once"
        );
        thread::sleep(self.edge_takes);
        let done = act();
        self.commands_under_way.fetch_sub(1, SeqCst);
        done
    }
}

impl Testbed for Simulated {
    fn pause(&self) -> Result<Instant<Virtual>, TestbedError> {
        assert!(!self.panic_on_pause.load(SeqCst), "as the test wishes");
        self.alone(|| {
            if self.pauses_to_refuse.load(SeqCst) > 0 {
                self.pauses_to_refuse.fetch_sub(1, SeqCst);
                return Err(TestbedError::new("a process did not stop"));
            }
            assert!(!self.standing.swap(true, SeqCst), "paused twice");
            Ok(Instant::from_ns(self.clock.fetch_add(1, SeqCst) + 1))
        })
    }

    fn resume(&self, _until: Instant<Virtual>) -> Result<(), TestbedError> {
        self.alone(|| {
            if self.refuse_resume.load(SeqCst) {
                return Err(TestbedError::new("the freezer is gone"));
            }
            assert!(self.standing.swap(false, SeqCst), "resumed while it ran");
            Ok(())
        })
    }
}

fn recorded(testbed: &Arc<Simulated>) -> (Bus, Receiver<HoldRecord>) {
    let (sink, records) = channel();
    (
        Bus::builder(testbed.clone())
            .host("desk")
            .records(sink)
            .build(),
        records,
    )
}

#[test]
fn the_testbed_is_paused_exactly_while_there_is_a_hold() {
    const THREADS: u64 = 12;
    const ROUNDS: u64 = 400;
    let testbed = Arc::new(Simulated::default());
    let (bus, records) = recorded(&testbed);
    let holding = Arc::new(Mutex::new((0u64, Instant::ZERO)));
    thread::scope(|scope| {
        for me in 0..THREADS {
            let (bus, testbed, holding) = (bus.clone(), &testbed, &holding);
            scope.spawn(move || {
                let mut random = SplitMix64(me);
                for _ in 0..ROUNDS {
                    let luck = random.bits();
                    let hold = bus.hold(&format!("thread {me}"), "stress").unwrap();
                    {
                        let mut held = holding.lock().unwrap();
                        if held.0 > 0 {
                            assert_eq!(held.1, hold.instant(), "overlapping holds, two instants");
                        }
                        *held = (held.0 + 1, hold.instant());
                    }
                    if luck >> 62 == 0 {
                        thread::sleep(StdDuration::from_micros(luck >> 57));
                    }
                    assert!(testbed.standing.load(SeqCst), "running while held");
                    assert_eq!(testbed.clock.load(SeqCst), hold.instant().as_ns());
                    holding.lock().unwrap().0 -= 1;
                    drop(hold);
                    if luck >> 61 == 1 {
                        thread::sleep(StdDuration::from_micros(50));
                    }
                }
            });
        }
    });
    assert!(!testbed.standing.load(SeqCst), "paused without a hold");
    assert!(bus.holders().is_empty());
    drop(bus);
    check_records(&records.iter().collect::<Vec<_>>(), THREADS * ROUNDS);
}

/// Asserts the criteria from the records alone: between a pause and its resume there are all holds
/// and as many releases, all at the same instant, and outside there are none.
fn check_records(records: &[HoldRecord], holds: u64) {
    let mut standing: Option<Instant<Virtual>> = None;
    let (mut open, mut seen) = (0, 0);
    for (row, record) in records.iter().enumerate() {
        assert_eq!(record.seq, row as u64);
        assert_eq!(record.host, "desk");
        assert!(!record.duration.is_negative());
        match record.action {
            RecordKind::Pause => assert_eq!(standing.replace(record.t_virtual), None, "row {row}"),
            RecordKind::Hold => (open, seen) = (open + 1, seen + 1),
            RecordKind::Release => open -= 1,
            RecordKind::Resume => {
                assert_eq!(
                    (open, standing.take()),
                    (0, Some(record.t_virtual)),
                    "row {row}"
                );
                continue;
            }
        }
        assert!(open >= 0);
        assert_eq!(standing, Some(record.t_virtual), "row {row}");
        assert!(
            record.t_wall >= records[row.saturating_sub(1)].t_wall,
            "row {row}"
        );
    }
    assert_eq!((open, seen, standing), (0, holds, None));
}

#[test]
fn a_request_during_a_pause_joins_it() {
    let testbed = Arc::new(Simulated {
        edge_takes: StdDuration::from_millis(50),
        ..Default::default()
    });
    let (bus, records) = recorded(&testbed);
    let under_way = || {
        while testbed.commands_under_way.load(SeqCst) == 0 {
            thread::yield_now();
        }
    };
    let (late, resumed) = (bus.clone(), bus.clone());
    let (let_go, told) = channel();
    let first = thread::spawn(move || {
        let _hold = bus.hold("first", "T1").unwrap();
        told.recv().unwrap();
    });
    under_way();
    let second = late.hold("second", "T1' before T2").unwrap();
    let_go.send(()).unwrap();
    first.join().unwrap();
    assert_eq!(second.instant(), Instant::from_ns(1));
    assert!(
        testbed.standing.load(SeqCst),
        "the first one's release must not resume"
    );

    // A hold that is requested while the testbed is being resumed gets a pause of its own.
    let releaser = thread::spawn(move || drop(second));
    under_way();
    assert_eq!(
        resumed.hold("third", "too late").unwrap().instant(),
        Instant::from_ns(2)
    );
    releaser.join().unwrap();
    drop((late, resumed));
    check_records(&records.iter().collect::<Vec<_>>(), 3);
}

#[test]
fn a_panic_while_holding_lets_go() {
    let testbed = Arc::new(Simulated::default());
    let bus = Bus::new(testbed.clone());
    let theirs = bus.clone();
    let panicked = thread::spawn(move || {
        let _hold = theirs.hold("clumsy", "to fall over").unwrap();
        panic!("as the test wishes");
    });
    assert!(panicked.join().is_err());
    assert!(!testbed.standing.load(SeqCst));
    assert_eq!(
        bus.hold("next", "life goes on").unwrap().instant(),
        Instant::from_ns(2)
    );
}

#[test]
fn a_pause_that_fails_is_an_error_for_one_and_tried_again_for_the_others() {
    let testbed = Arc::new(Simulated {
        edge_takes: StdDuration::from_millis(20),
        pauses_to_refuse: AtomicU64::new(1),
        ..Default::default()
    });
    let bus = Bus::new(testbed.clone());
    let start = Barrier::new(3);
    let outcomes: Vec<bool> = thread::scope(|scope| {
        let all: Vec<_> = (0..3)
            .map(|me| {
                let (bus, start) = (&bus, &start);
                scope.spawn(move || {
                    start.wait();
                    bus.hold(&format!("thread {me}"), "test").is_ok()
                })
            })
            .collect();
        all.into_iter().map(|one| one.join().unwrap()).collect()
    });
    assert_eq!(
        outcomes.iter().filter(|ok| !**ok).count(),
        1,
        "{outcomes:?}"
    );
    assert!(!testbed.standing.load(SeqCst));
}

#[test]
fn a_resume_that_fails_is_reported_and_ends_the_service() {
    let testbed = Arc::new(Simulated {
        refuse_resume: AtomicBool::new(true),
        ..Default::default()
    });
    let (tell, told) = channel();
    let bus = Bus::builder(testbed)
        .on_failure(move |error| tell.send(error).unwrap())
        .build();
    drop(bus.hold("one", "test").unwrap());
    let BusError::Broken { cause } = told.recv().unwrap() else {
        panic!()
    };
    assert!(cause.contains("the freezer is gone"), "{cause}");
    assert!(matches!(
        bus.hold("two", "test"),
        Err(BusError::Broken { .. })
    ));
}

#[test]
fn a_panic_in_the_testbed_leaves_no_caller_waiting() {
    let testbed = Arc::new(Simulated {
        panic_on_pause: AtomicBool::new(true),
        ..Default::default()
    });
    let bus = Bus::new(testbed);
    let theirs = bus.clone();
    assert!(
        thread::spawn(move || theirs.hold("one", "test").is_ok())
            .join()
            .is_err()
    );
    assert!(matches!(
        bus.hold("two", "test"),
        Err(BusError::Broken { .. })
    ));
}

#[test]
fn a_long_hold_is_reported_with_its_requester() {
    let (tell, told) = channel();
    let bus = Bus::builder(Arc::new(Simulated::default()))
        .watch(Duration::from_ms(40), move |report| {
            tell.send(report).unwrap()
        })
        .build();
    let slow = bus.hold("relay 7", "read 30001").unwrap();
    let report = told.recv_timeout(StdDuration::from_secs(120)).unwrap();
    assert_eq!(report.holders[0].requester, "relay 7");
    assert_eq!(report.holders[0].reason, "read 30001");
    assert!(report.stood_for >= Duration::from_ms(40));

    // No single hold lasts long here, but there is no break between them.
    let mut chain = slow;
    let began = std::time::Instant::now();
    while began.elapsed() < StdDuration::from_millis(120) {
        let next = bus.hold("busy", "again").unwrap();
        drop(std::mem::replace(&mut chain, next));
        thread::sleep(StdDuration::from_millis(5));
    }
    let report = told.recv_timeout(StdDuration::from_secs(120)).unwrap();
    assert_eq!(report.holders.len(), 1);
    drop(chain);
    while told.try_recv().is_ok() {}
    // One report may have been under way already.
    let late = told.recv_timeout(StdDuration::from_millis(120)).is_ok();
    let again = late && told.recv_timeout(StdDuration::from_millis(120)).is_ok();
    assert!(!again, "reported while running");
}

#[test]
fn a_free_running_testbed_is_asked_and_never_commanded() {
    let now = Arc::new(AtomicI64::new(0));
    let clock = now.clone();
    let (sink, records) = channel();
    let testbed = FreeRunning::new(move || Instant::from_ns(clock.fetch_add(10, SeqCst)));
    let bus = Bus::builder(Arc::new(testbed)).records(sink).build();
    let one = bus.hold("a", "real").unwrap();
    let two = bus.hold("b", "real").unwrap();
    assert!(
        two.instant() > one.instant(),
        "the present, not the first one's past"
    );
    drop((one, two, bus));
    let actions: Vec<_> = records.iter().map(|record| record.action.name()).collect();
    assert_eq!(actions, ["hold", "hold", "release", "release"]);
}
