//! The line between machines over UDP that loses, doubles, delays and forges.

use std::net::{SocketAddr, UdpSocket};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration as StdDuration;

use timeloom_accord::{Mode, OnSilence, Settings};
use timeloom_bus::{
    AgreedTestbed, Bound, Cause, Key, MachineTimeline, MachineWire, Peer, TestbedError, Udp, Wire,
};
use timeloom_sys::wall_now;
use timeloom_time::{Duration, Instant, Virtual, Wall};

/// A clock without processes.
#[derive(Default)]
struct Clock(Mutex<State>);

#[derive(Default)]
struct State {
    /// When and from where it went on; none while it stands.
    goes: Option<(Instant<Wall>, Instant<Virtual>)>,
    ceiling: Option<Instant<Virtual>>,
    stands: Option<Instant<Virtual>>,
    /// All instants at which it stood, and when it went on from each.
    stood: Vec<Instant<Virtual>>,
    went: Vec<Instant<Wall>>,
    halted: bool,
}

impl State {
    fn shows(&self) -> Instant<Virtual> {
        let Some((at, from)) = self.goes else {
            return self.stands.unwrap_or(Instant::ZERO);
        };
        let shows = from + (wall_now() - at);
        self.ceiling.map_or(shows, |ceiling| shows.min(ceiling))
    }
}

impl AgreedTestbed for Clock {
    fn hold_alone(&self) -> Result<(), TestbedError> {
        Ok(())
    }

    fn close(
        &self,
        lead: Duration,
        at_least: Option<Instant<Virtual>>,
    ) -> Result<Instant<Virtual>, TestbedError> {
        let mut state = self.0.lock().unwrap();
        let shows = state.shows();
        let ceiling = at_least.map_or(shows + lead, |at_least| at_least.max(shows));
        state.ceiling = Some(ceiling);
        Ok(ceiling)
    }

    fn stand(&self, at: Instant<Virtual>) -> Result<(), TestbedError> {
        let ahead = {
            let mut state = self.0.lock().unwrap();
            assert!(state.shows() <= at, "past {at:?} already");
            state.ceiling = Some(at);
            at - state.shows()
        };
        thread::sleep(StdDuration::from_nanos(ahead.as_ns() as u64));
        let mut state = self.0.lock().unwrap();
        (state.goes, state.stands) = (None, Some(at));
        state.stood.push(at);
        Ok(())
    }

    fn resume(&self, from: Instant<Virtual>, at: Instant<Wall>) -> Result<(), TestbedError> {
        while wall_now() < at {
            thread::sleep(StdDuration::from_micros(50));
        }
        let mut state = self.0.lock().unwrap();
        assert_eq!(state.stands, Some(from), "no jump");
        (state.goes, state.stands, state.ceiling) = (Some((at, from)), None, None);
        state.went.push(at);
        Ok(())
    }

    fn halt(&self) {
        self.0.lock().unwrap().halted = true;
    }
}

/// A bad way to `to`: what is sent to the address arrives there, or does not.
struct Relay {
    address: SocketAddr,
    over: Arc<AtomicBool>,
    lost: Arc<AtomicU64>,
}

impl Relay {
    fn start(to: SocketAddr, seed: u64) -> Self {
        let socket = UdpSocket::bind("127.0.0.1:0").expect("a socket");
        let address = socket.local_addr().expect("its address");
        let patience = Some(StdDuration::from_millis(50));
        socket.set_read_timeout(patience).expect("a time-out");
        let (over, lost) = (
            Arc::new(AtomicBool::new(false)),
            Arc::new(AtomicU64::new(0)),
        );
        let (its_over, its_lost) = (Arc::clone(&over), Arc::clone(&lost));
        thread::spawn(move || {
            let mut luck = seed;
            let mut kept: Option<Vec<u8>> = None;
            let mut buffer = [0; 2048];
            while !its_over.load(Ordering::SeqCst) {
                let Ok((bytes, _)) = socket.recv_from(&mut buffer) else {
                    continue;
                };
                let datagram = buffer[..bytes].to_vec();
                luck = luck.wrapping_mul(6364136223846793005).wrapping_add(99);
                match luck >> 33 & 15 {
                    0..3 => {
                        its_lost.fetch_add(1, Ordering::SeqCst);
                        continue;
                    }
                    // Doubled.
                    3 => drop(socket.send_to(&datagram, to)),
                    // Comes after the next, or the one after that.
                    4..6 => kept = Some(datagram.clone()),
                    // Forged: one bit is another; and no datagram at all.
                    6 => {
                        let mut forged = datagram.clone();
                        forged[(luck >> 40) as usize % bytes] ^= 1;
                        drop(socket.send_to(&forged, to));
                        drop(socket.send_to(b"TLPB\x01", to));
                    }
                    _ => {}
                }
                drop(socket.send_to(&datagram, to));
                if luck >> 50 & 1 == 1
                    && let Some(late) = kept.take()
                {
                    drop(socket.send_to(&late, to));
                }
            }
        });
        Self {
            address,
            over,
            lost,
        }
    }
}

impl Drop for Relay {
    fn drop(&mut self) {
        self.over.store(true, Ordering::SeqCst);
    }
}

const NAMES: [&str; 3] = ["a", "b", "c"];

fn settings() -> Settings {
    Settings {
        mode: Mode::Immediate,
        on_silence: OnSilence::Stop,
        patience: Duration::from_s(60),
        assembly: Duration::from_s(60),
        beat: Duration::from_ms(20),
        to_all: false,
    }
}

/// An address that is free now.
fn free() -> SocketAddr {
    let socket = UdpSocket::bind("127.0.0.1:0").expect("a socket");
    socket.local_addr().expect("its address")
}

fn listen(address: SocketAddr, key: u8, settings: Settings) -> Bound {
    let key = Key::new(&[key; 32]);
    Bound::listen(address, key, Arc::new(MachineTimeline), settings).expect("a socket")
}

/// Three ends, each reached by relays.
fn line() -> (Vec<Udp>, Vec<Arc<Clock>>, Vec<Relay>) {
    let addresses: Vec<SocketAddr> = NAMES.iter().map(|_| free()).collect();
    let mut relays = Vec::new();
    let (mut ends, mut clocks) = (Vec::new(), Vec::new());
    for (here, name) in NAMES.iter().enumerate() {
        let mut peers = Vec::new();
        for (there, peer) in NAMES.iter().enumerate().filter(|it| it.0 != here) {
            let relay = Relay::start(addresses[there], (here * 3 + there) as u64);
            peers.push(Peer {
                name: (*peer).to_owned(),
                address: relay.address,
                late: false,
            });
            relays.push(relay);
        }
        let clock = Arc::new(Clock::default());
        let bound = listen(addresses[here], 7, settings());
        let end = bound.start(name, false, &peers, clock.clone());
        ends.push(end.expect("an end of the line"));
        clocks.push(clock);
    }
    (ends, clocks, relays)
}

const CAUSE: Cause<'static> = Cause {
    requester: "test",
    reason: "test",
};

#[test]
fn a_bad_network_delays_and_changes_nothing() {
    let (ends, clocks, relays) = line();
    for end in &ends {
        end.wait_for_start().expect("all are there");
    }
    // All three ask at once, again and again.
    thread::scope(|scope| {
        for (index, end) in ends.iter().enumerate() {
            let clocks = &clocks;
            scope.spawn(move || {
                // Where a machine is so busy that their pauses become one, some more.
                let stood = || clocks[index].0.lock().unwrap().stood.len();
                for round in 0.. {
                    if round >= 15 && stood() > 5 {
                        break;
                    }
                    let at = end.raise(CAUSE).expect("the line");
                    for clock in clocks {
                        let state = clock.0.lock().unwrap();
                        assert_eq!(state.stands, Some(at));
                    }
                    thread::sleep(StdDuration::from_millis((index + round) as u64 % 3));
                    end.lower(CAUSE, at).expect("it goes on");
                    thread::sleep(StdDuration::from_millis(2));
                }
            });
        }
    });
    let last = clocks
        .iter()
        .map(|clock| clock.0.lock().unwrap().stood.len());
    let pauses = last.max().expect("clocks");
    assert!(pauses > 5, "{pauses}");
    let begun = std::time::Instant::now();
    for clock in &clocks {
        while clock.0.lock().unwrap().went.len() < pauses {
            assert!(begun.elapsed() < StdDuration::from_secs(60), "it goes on");
            thread::sleep(StdDuration::from_millis(5));
        }
    }
    let of = |index: usize| {
        let state = clocks[index].0.lock().unwrap();
        (state.stood.clone(), state.went.clone())
    };
    assert_eq!(of(0), of(1));
    assert_eq!(of(0), of(2));
    assert!(
        relays
            .iter()
            .all(|relay| relay.lost.load(Ordering::SeqCst) > 0)
    );
    // What was forged was refused.
    assert!(ends.iter().all(|end| end.refused() > 0));
    assert!(ends.iter().all(|end| end.halted().is_none()));
    ends.iter().for_each(Udp::end);
}

/// Another key is another run, and nobody is heard by both.
#[test]
fn a_stranger_is_nobody() {
    let (first, second) = (free(), free());
    let settings = Settings {
        assembly: Duration::from_ms(400),
        ..settings()
    };
    let ends: Vec<(Udp, Arc<Clock>)> = [
        ("a", first, ("b", second), 1),
        ("b", second, ("a", first), 2),
    ]
    .into_iter()
    .map(|(name, here, (peer, address), key)| {
        let peer = Peer {
            name: peer.to_owned(),
            address,
            late: false,
        };
        let clock = Arc::new(Clock::default());
        let bound = listen(here, key, settings);
        let end = bound.start(name, false, &[peer], clock.clone());
        (end.expect("an end of the line"), clock)
    })
    .collect();
    for (end, clock) in &ends {
        let why = end.wait_for_start().expect_err("it is alone");
        assert!(why.contains("hears nothing from"), "{why}");
        assert!(end.refused() > 0, "the other was there");
        assert!(end.raise(CAUSE).is_err(), "it stays so");
        let begun = std::time::Instant::now();
        while !clock.0.lock().unwrap().halted {
            assert!(begun.elapsed() < StdDuration::from_secs(60), "it is halted");
            thread::sleep(StdDuration::from_millis(5));
        }
        end.end();
    }
}
