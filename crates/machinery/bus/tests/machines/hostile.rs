//! Tests of senders that do not have the key of a run or have recordings of an earlier run, and of
//! runs that meet by mistake.

use std::fs;
use std::net::{SocketAddr, UdpSocket};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration as StdDuration;

use timeloom_agreement::{Settings, TimelineReading};
use timeloom_bus::{
    AgreedTestbed, BoundSocket, BusKey, BusPeer, CommonTimeline, LocalResumption, MachineTimeline,
    MachineWire, TestbedError, Udp, Wire,
};
use timeloom_clock::TimelineTime;
use timeloom_random::SplitMix64;
use timeloom_test_support::{eventually, own_address};
use timeloom_time::{Duration, Instant, Virtual, Wall};

use crate::agreed::{listen, settings};
use crate::clock::{CAUSE, Clock};

/// Creates the end called `name` of a line between `a` and `b`.
fn end(bound: BoundSocket, name: &str, to: SocketAddr, testbed: Arc<dyn AgreedTestbed>) -> Udp {
    let other = if name == "a" { "b" } else { "a" };
    let peer = BusPeer {
        name: other.to_owned(),
        address: to,
        late: false,
    };
    let end = bound.start(name, false, &[peer], testbed);
    end.expect("an end of the line")
}

/// Listener on the path to an address. It records the datagrams and forwards them.
struct Tap {
    address: SocketAddr,
    kept: Arc<Mutex<Vec<Vec<u8>>>>,
    over: Arc<AtomicBool>,
}

impl Tap {
    fn start(to: SocketAddr) -> Self {
        let socket = UdpSocket::bind("127.0.0.1:0").expect("a socket");
        let patience = Some(StdDuration::from_millis(50));
        socket.set_read_timeout(patience).expect("a time-out");
        let tap = Self {
            address: socket.local_addr().expect("its address"),
            kept: Arc::default(),
            over: Arc::default(),
        };
        let (kept, over) = (Arc::clone(&tap.kept), Arc::clone(&tap.over));
        thread::spawn(move || {
            let mut buffer = [0; 2048];
            while !over.load(Ordering::SeqCst) {
                if let Ok((bytes, _)) = socket.recv_from(&mut buffer) {
                    let datagram = &buffer[..bytes];
                    let mut kept = kept.lock().unwrap();
                    if kept.len() < 1_000 {
                        kept.push(datagram.to_vec());
                    }
                    let _ = socket.send_to(datagram, to);
                }
            }
        });
        tap
    }

    fn kept(&self) -> Vec<Vec<u8>> {
        self.kept.lock().unwrap().clone()
    }
}

impl Drop for Tap {
    fn drop(&mut self) {
        self.over.store(true, Ordering::SeqCst);
    }
}

/// Sends recorded datagrams, forged copies of them and random bytes as fast as possible. Adds the
/// number of bytes sent to `sent`.
fn flood(to: [SocketAddr; 2], heard: &[Vec<u8>], over: &AtomicBool, sent: &AtomicU64) {
    let socket = UdpSocket::bind("127.0.0.1:0").expect("a socket");
    let mut random = SplitMix64(1);
    while !over.load(Ordering::Relaxed) {
        let luck = random.bits();
        let draw = (luck >> 40) as usize;
        let mut bytes = heard[draw % heard.len()].clone();
        match luck >> 33 & 3 {
            0 => {}
            1 => {
                let at = draw % bytes.len();
                bytes[at] ^= 1 << (luck >> 37 & 7);
            }
            2 => bytes.resize(draw % 200, 0),
            _ => bytes.iter_mut().enumerate().for_each(|(at, byte)| {
                *byte = luck.rotate_left(at as u32) as u8;
            }),
        }
        for address in to {
            let _ = socket.send_to(&bytes, address);
        }
        sent.fetch_add(2 * bytes.len() as u64, Ordering::Relaxed);
    }
}

/// Waits until all clocks run. Holds that overlap make a single pause.
fn go_on(clocks: &[Arc<Clock>]) {
    eventually("all go on", || {
        clocks.iter().all(|clock| clock.state().goes.is_some())
    });
}

/// Returns the resident memory of this process, in bytes.
fn resident() -> u64 {
    let text = fs::read_to_string("/proc/self/statm").expect("/proc");
    let pages = text.split(' ').nth(1).and_then(|pages| pages.parse().ok());
    4096 * pages.unwrap_or(0u64)
}

/// A sender without the key can neither cause nor prevent a pause, and costs no memory.
#[test]
fn a_flood_without_the_key_neither_causes_nor_prevents_a_pause() {
    let addresses = [own_address(), own_address()];
    let tap = Tap::start(addresses[0]);
    let clocks = [Arc::new(Clock::default()), Arc::new(Clock::default())];
    let ways = [addresses[1], tap.address];
    let start = |here: usize, name| {
        let bound = listen(addresses[here], 7, settings());
        end(bound, name, ways[here], clocks[here].clone())
    };
    let ends = [start(0, "a"), start(1, "b")];
    for end in &ends {
        end.wait_for_start().expect("both are there");
    }
    // The recorded datagrams that are repeated include those of a pause.
    let mut asked = Vec::new();
    let mut pause = |end: &Udp| {
        let at = end.raise(CAUSE).expect("the line");
        for clock in &clocks {
            assert_eq!(clock.state().stands, Some(at));
        }
        asked.push(at);
        end.lower(CAUSE, at).expect("it goes on");
        go_on(&clocks);
    };
    pause(&ends[0]);
    let heard = tap.kept();
    let (over, sent) = (AtomicBool::new(false), AtomicU64::new(0));
    let before = resident();
    thread::scope(|scope| {
        scope.spawn(|| flood(addresses, &heard, &over, &sent));
        for turn in 0..10 {
            pause(&ends[turn % 2]);
        }
        eventually("that was a flood", || {
            let refused = ends.iter().map(Udp::refused).min();
            refused > Some(50_000) && sent.load(Ordering::Relaxed) > 20_000_000
        });
        over.store(true, Ordering::Relaxed);
    });
    let grown = resident().saturating_sub(before);
    assert!(
        grown < sent.into_inner() / 2,
        "{grown} bytes are kept of it"
    );
    for (end, clock) in ends.iter().zip(&clocks) {
        assert_eq!(end.halted(), None);
        // The first instant is that of the start.
        assert_eq!(clock.state().stood[1..], asked);
        end.end();
    }
}

/// Timeline that is ahead of the machine's by this duration.
struct Later(Duration);

impl CommonTimeline for Later {
    fn read(&self) -> TimelineReading {
        let moment = MachineTimeline.read();
        TimelineReading {
            now: moment.now + self.0,
            ..moment
        }
    }

    fn wall_at(&self, at: Instant<TimelineTime>) -> Instant<Wall> {
        MachineTimeline.wall_at(at - self.0)
    }

    fn timeline_at(&self, at: Instant<Wall>) -> Instant<TimelineTime> {
        MachineTimeline.timeline_at(at) + self.0
    }
}

fn listen_later(address: SocketAddr, later: Duration, settings: Settings) -> BoundSocket {
    let timeline = Arc::new(Later(later));
    BoundSocket::listen(address, BusKey::new(&[7; 32]), timeline, settings).expect("a socket")
}

/// Testbed whose clock refuses all commands.
struct Stubborn;

impl AgreedTestbed for Stubborn {
    fn hold_alone(&self) -> Result<(), TestbedError> {
        Err(TestbedError::new("no"))
    }

    fn close(
        &self,
        _: Duration,
        _: Option<Instant<Virtual>>,
    ) -> Result<Instant<Virtual>, TestbedError> {
        Err(TestbedError::new("no"))
    }

    fn stand(&self, _: Instant<Virtual>) -> Result<(), TestbedError> {
        Err(TestbedError::new("no"))
    }

    fn resume(&self, _: LocalResumption) -> Result<(), TestbedError> {
        Err(TestbedError::new("no"))
    }

    fn wait_for(&self, _: Instant<Virtual>, _: &dyn Fn() -> bool) -> bool {
        false
    }

    fn wake(&self) {}

    fn halt(&self) {}
}

/// An earlier run with the same key ended because `b` stopped all hosts. Replaying its datagrams
/// before `b` has sent anything must not stop a host.
#[test]
fn replayed_datagrams_of_an_earlier_run_stop_no_later_run() {
    let addresses = [own_address(), own_address()];
    let tap = Tap::start(addresses[0]);
    let clock = Arc::new(Clock::default());
    let a = end(
        listen(addresses[0], 7, settings()),
        "a",
        addresses[1],
        clock,
    );
    let b = listen(addresses[1], 7, settings());
    let b = end(b, "b", tap.address, Arc::new(Stubborn));
    eventually("b stops both", || a.halted().is_some());
    let said = tap.kept();
    a.end();
    b.end();

    let hour = Duration::from_s(3_600);
    let addresses = [own_address(), own_address()];
    let clocks = [Arc::new(Clock::default()), Arc::new(Clock::default())];
    let start = |here: usize, name| {
        let bound = listen_later(addresses[here], hour, settings());
        end(bound, name, addresses[1 - here], clocks[here].clone())
    };
    let a = start(0, "a");
    let who_listened = UdpSocket::bind("127.0.0.1:0").expect("a socket");
    eventually("all that was said is refused", || {
        for datagram in &said {
            let _ = who_listened.send_to(datagram, addresses[0]);
        }
        assert_eq!(a.halted(), None, "it was said in another run");
        a.refused() >= said.len() as u64
    });
    let b = start(1, "b");
    for end in [&a, &b] {
        end.wait_for_start().expect("both are there");
    }
    let at = a.raise(CAUSE).expect("the line");
    assert_eq!(clocks[1].state().stands, Some(at));
    a.lower(CAUSE, at).expect("it goes on");
    a.end();
    b.end();
}

/// Returns settings whose timeouts are short, but long enough for datagrams to arrive on a busy
/// machine.
fn hasty() -> Settings {
    Settings {
        assembly: Duration::from_s(3),
        ..settings()
    }
}

/// Hosts with different keys belong to different runs. They ignore each other, and each reports
/// that.
#[test]
fn a_host_with_another_key_is_ignored_and_reported() {
    let addresses = [own_address(), own_address()];
    let clocks = [Arc::new(Clock::default()), Arc::new(Clock::default())];
    let start = |here: usize, name| {
        let bound = listen(addresses[here], here as u8, hasty());
        end(bound, name, addresses[1 - here], clocks[here].clone())
    };
    let ends = [start(0, "a"), start(1, "b")];
    for ((end, clock), other) in ends.iter().zip(&clocks).zip(["b", "a"]) {
        let why = end.wait_for_start().expect_err("it is alone").to_string();
        let nothing = format!(
            "receives nothing from {other}: datagrams from its address are \
            sealed"
        );
        assert!(why.contains(&nothing), "{why}");
        assert!(end.refused() > 0, "the other was there");
        assert!(end.raise(CAUSE).is_err(), "it stays so");
        eventually("it is halted", || clock.state().halted);
        end.end();
    }
}

/// Hosts whose clocks differ by more than their error bounds ignore each other, and both report the
/// reason.
#[test]
fn clocks_that_differ_by_more_than_they_say_are_said_to() {
    let addresses = [own_address(), own_address()];
    let start = |here: usize, name, later_s| {
        let bound = listen_later(addresses[here], Duration::from_s(later_s), hasty());
        end(bound, name, addresses[1 - here], Arc::new(Clock::default()))
    };
    let ends = [start(0, "a", 3_600), start(1, "b", 0)];
    let said = ends.each_ref().map(|end| {
        let why = end.wait_for_start().expect_err("it is alone").to_string();
        end.end();
        why
    });
    let [by_a, by_b] = [
        "b: its last datagram was sent 3",
        "a: its last datagram was sent 3",
    ];
    assert!(said[0].contains(by_a), "{said:?}");
    assert!(said[0].contains("before a began"), "{said:?}");
    assert!(said[1].contains(by_b), "{said:?}");
}

/// Two runs whose hosts have the same names use the same multicast group by mistake.
#[test]
fn two_runs_in_one_group_do_not_disturb_each_other() {
    let group = SocketAddr::from(([239, 255, 77, 7], own_address().port()));
    let run = |key: u8| {
        let addresses = [own_address(), own_address()];
        let clocks = [Arc::new(Clock::default()), Arc::new(Clock::default())];
        let start = |here: usize, name| {
            let bound = listen(addresses[here], key, settings()).join(group);
            let bound = bound.expect("the loopback interface has groups");
            end(bound, name, addresses[1 - here], clocks[here].clone())
        };
        let ends = [start(0, "a"), start(1, "b")];
        (ends, clocks)
    };
    let runs = [run(1), run(2)];
    let all = || runs.iter().flat_map(|(ends, _)| ends);
    for end in all() {
        end.wait_for_start().expect("its two are there");
    }
    let stood = |run: usize| {
        let clocks = &runs[run].1;
        go_on(clocks);
        let [a, b] = clocks;
        assert_eq!(a.state().stood, b.state().stood);
        a.state().stood.len()
    };
    assert_eq!((stood(0), stood(1)), (1, 1), "they have begun");
    for turn in 0..8 {
        let end = &runs[0].0[turn % 2];
        let at = end.raise(CAUSE).expect("the line");
        let others = &runs[1].1;
        assert!(others.iter().all(|clock| clock.state().goes.is_some()));
        end.lower(CAUSE, at).expect("it goes on");
        go_on(&runs[0].1);
    }
    assert_eq!((stood(0), stood(1)), (9, 1));
    let at = runs[1].0[0].raise(CAUSE).expect("the line");
    runs[1].0[0].lower(CAUSE, at).expect("it goes on");
    assert_eq!((stood(0), stood(1)), (9, 2));
    for end in all() {
        assert!(end.refused() > 0, "the others were there");
        assert_eq!(end.halted(), None);
        end.end();
    }
}
