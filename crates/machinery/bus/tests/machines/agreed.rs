//! Tests of the line over a UDP path that loses, duplicates, delays and forges datagrams.

use std::net::{SocketAddr, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::Duration as StdDuration;

use timeloom_agreement::{LeadMode, OnSilence, Settings};
use timeloom_bus::{
    AgreedWire, BoundSocket, BusKey, BusPeer, MachineTimeline, MachineWire, StoppingWire, Udp, Wire,
};
use timeloom_random::SplitMix64;
use timeloom_test_support::{eventually, own_address};
use timeloom_time::{Dilation, Duration, Instant};

use crate::clock::{CAUSE, Clock};

/// Unreliable path to `to`: it forwards the datagrams that arrive at its address, or fails to.
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
            let mut random = SplitMix64(seed);
            let mut kept: Option<Vec<u8>> = None;
            let mut buffer = [0; 2048];
            while !its_over.load(Ordering::SeqCst) {
                let Ok((bytes, _)) = socket.recv_from(&mut buffer) else {
                    continue;
                };
                let datagram = buffer[..bytes].to_vec();
                let luck = random.bits();
                match luck >> 33 & 15 {
                    0..3 => {
                        its_lost.fetch_add(1, Ordering::SeqCst);
                        continue;
                    }
                    // The datagram is duplicated.
                    3 => drop(socket.send_to(&datagram, to)),
                    // The datagram is delivered after the next one, or after the one that follows
                    // that.
                    4..6 => kept = Some(datagram.clone()),
                    // The datagram is forged: one bit differs. Bytes that are not a datagram are
                    // sent too.
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

pub(crate) fn settings() -> Settings {
    Settings {
        mode: LeadMode::Immediate,
        on_silence: OnSilence::Stop,
        patience: Duration::from_s(60),
        assembly: Duration::from_s(60),
        beat: Duration::from_ms(20),
        ..Settings::default()
    }
}

pub(crate) fn listen(address: SocketAddr, key: u8, settings: Settings) -> BoundSocket {
    let key = BusKey::new(&[key; 32]);
    BoundSocket::listen(address, key, Arc::new(MachineTimeline), settings).expect("a socket")
}

/// Creates three ends, each of which the others reach through unreliable paths.
fn line() -> (Vec<Udp>, Vec<Arc<Clock>>, Vec<Relay>) {
    let addresses: Vec<SocketAddr> = NAMES.iter().map(|_| own_address()).collect();
    let mut relays = Vec::new();
    let (mut ends, mut clocks) = (Vec::new(), Vec::new());
    for (here, name) in NAMES.iter().enumerate() {
        let mut peers = Vec::new();
        for (there, peer) in NAMES.iter().enumerate().filter(|it| it.0 != here) {
            let relay = Relay::start(addresses[there], (here * 3 + there) as u64);
            peers.push(BusPeer {
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

#[test]
fn a_bad_network_delays_and_changes_nothing() {
    let (ends, clocks, relays) = line();
    for end in &ends {
        end.wait_for_start().expect("all are there");
    }
    // All three machines request holds at the same time, repeatedly.
    thread::scope(|scope| {
        for (index, end) in ends.iter().enumerate() {
            let clocks = &clocks;
            scope.spawn(move || {
                // On a machine so busy that these pauses merge into one, further holds are
                // requested.
                let stood = || clocks[index].state().stood.len();
                for round in 0.. {
                    if round >= 15 && stood() > 5 {
                        break;
                    }
                    let at = end.raise(CAUSE).expect("the line");
                    for clock in clocks {
                        let state = clock.state();
                        assert_eq!(state.stands, Some(at));
                    }
                    thread::sleep(StdDuration::from_millis((index + round) as u64 % 3));
                    end.lower(CAUSE, at).expect("it goes on");
                    thread::sleep(StdDuration::from_millis(2));
                }
            });
        }
    });
    let last = clocks.iter().map(|clock| clock.state().stood.len());
    let pauses = last.max().expect("clocks");
    assert!(pauses > 5, "{pauses}");
    for clock in &clocks {
        eventually("it goes on", || clock.state().went.len() >= pauses);
    }
    let of = |index: usize| {
        let state = clocks[index].state();
        (state.stood.clone(), state.went.clone())
    };
    assert_eq!(of(0), of(1));
    assert_eq!(of(0), of(2));
    assert!(
        relays
            .iter()
            .all(|relay| relay.lost.load(Ordering::SeqCst) > 0)
    );
    // The forged datagrams were refused.
    assert!(ends.iter().all(|end| end.refused() > 0));
    assert!(ends.iter().all(|end| end.halted().is_none()));
    ends.iter().for_each(Udp::end);
}

/// The machines change the dilation in turn. All must have the same one from the same virtual and
/// wall instant on, although datagrams are lost, duplicated, delayed and forged.
#[test]
fn all_machines_change_their_rate_at_one_instant() {
    let (ends, clocks, relays) = line();
    for end in &ends {
        end.wait_for_start().expect("all are there");
    }
    let factors = [3.0, 0.5, 1.0, 10.0, 2.0, 0.25];
    let dilations = factors.map(|factor| Dilation::new(factor).expect("a dilation"));
    for (turn, dilation) in dilations.into_iter().enumerate() {
        let end = &ends[turn % 3];
        let refused = end.dilate(dilation).expect_err("no pause is held");
        assert!(refused.to_string().contains("does not hold"), "{refused}");
        let at = end.raise(CAUSE).expect("the line");
        end.dilate(dilation).expect("the pause is held");
        end.lower(CAUSE, at).expect("it goes on");
        let within = StdDuration::from_secs(60);
        let agreed = end.wait_for_end_of(at, within).expect("it goes on");
        assert_eq!(agreed, Some(dilation));
        assert_eq!(clocks[turn % 3].state().dilations.last(), Some(&dilation));
        for clock in &clocks {
            eventually("it goes on", || clock.state().went.len() > turn + 1);
        }
    }
    let of = |index: usize| {
        let state = clocks[index].state();
        (
            state.stood.clone(),
            state.went.clone(),
            state.dilations.clone(),
        )
    };
    assert_eq!(of(0), of(1));
    assert_eq!(of(0), of(2));
    assert_eq!(of(0).2, [&[Dilation::ONE][..], &dilations].concat());
    let lost = |relay: &Relay| relay.lost.load(Ordering::SeqCst) > 0;
    assert!(relays.iter().any(lost));
    ends.iter().for_each(Udp::end);
}

/// The machines request stops in turn, and pauses in between. All must stop at exactly the
/// instants, although datagrams are lost, duplicated, delayed and forged, and stay there until the
/// machine has withdrawn its request.
#[test]
fn all_machines_stop_at_a_requested_instant() {
    let (ends, clocks, _relays) = line();
    for end in &ends {
        end.wait_for_start().expect("all are there");
    }
    for turn in 0..6_usize {
        let end = &ends[turn % 3];
        let at = end.raise(CAUSE).expect("the line");
        let stop = at + Duration::from_ms(20 + 10 * turn as i64);
        let refused = end.stop_at(at).expect_err("it is not after the pause");
        assert!(refused.to_string().contains("in the past"), "{refused}");
        end.stop_at(stop).expect("the pause is held");
        end.lower(CAUSE, at).expect("it goes on");
        if turn % 2 == 1 {
            // A pause of another machine in between does not lose the stop.
            let other = &ends[(turn + 1) % 3];
            let between = other.raise(CAUSE).expect("the line");
            assert!(between <= stop, "{between:?} {stop:?}");
            other.lower(CAUSE, between).expect("it goes on");
        }
        for clock in &clocks {
            eventually("it stops", || clock.state().stands == Some(stop));
        }
        thread::sleep(StdDuration::from_millis(30));
        for clock in &clocks {
            assert_eq!(clock.state().stands, Some(stop), "until it is withdrawn");
        }
        assert_eq!(end.raise(CAUSE).expect("the line"), stop);
        end.postpone_stop(Instant::FAR_FUTURE);
        end.lower(CAUSE, stop).expect("it goes on");
        for clock in &clocks {
            eventually("it goes on", || clock.state().stands.is_none());
        }
    }
    assert!(ends.iter().all(|end| end.halted().is_none()));
    ends.iter().for_each(Udp::end);
}

/// A thread that notices a stop when the pause at it has ended, or is about to end, must not hold
/// the line: the pause was that of the stop.
#[test]
fn a_stop_that_is_noticed_late_holds_nothing_up() {
    let (ends, clocks, _relays) = line();
    for end in &ends {
        end.wait_for_start().expect("all are there");
    }
    for (index, clock) in clocks.iter().enumerate() {
        clock.state().notices_late = StdDuration::from_millis(20 * index as u64 + 10);
    }
    for turn in 0..6_usize {
        let end = &ends[turn % 3];
        let at = end.raise(CAUSE).expect("the line");
        let stop = at + Duration::from_ms(20);
        end.stop_at(stop).expect("the pause is held");
        end.lower(CAUSE, at).expect("it goes on");
        eventually("it stops", || clocks[turn % 3].state().shows() >= stop);
        assert_eq!(end.raise(CAUSE).expect("the line"), stop);
        thread::sleep(StdDuration::from_millis(15 * turn as u64));
        end.postpone_stop(Instant::FAR_FUTURE);
        end.lower(CAUSE, stop).expect("it goes on");
        for clock in &clocks {
            eventually("it goes on", || {
                let state = clock.state();
                state.stands.is_none() && state.shows() > stop
            });
        }
    }
    assert!(ends.iter().all(|end| end.halted().is_none()));
    ends.iter().for_each(Udp::end);
}

/// A stop whose machine has forgotten it holds nothing up: all pause there, and go on.
#[test]
fn a_forgotten_stop_is_passed() {
    let (ends, clocks, _relays) = line();
    for end in &ends {
        end.wait_for_start().expect("all are there");
    }
    let at = ends[0].raise(CAUSE).expect("the line");
    let stop = at + Duration::from_ms(30);
    ends[0].stop_at(stop).expect("the pause is held");
    ends[0].lower(CAUSE, at).expect("it goes on");
    for clock in &clocks {
        eventually("it goes on", || clock.state().went.len() > 1);
    }
    ends[0].postpone_stop(Instant::FAR_FUTURE);
    for clock in &clocks {
        eventually("it goes on", || clock.state().went.len() > 2);
        assert_eq!(clock.state().stood.last(), Some(&stop));
    }
    ends.iter().for_each(Udp::end);
}

/// Two machines request different dilations in one pause. The greater one must be in force on all,
/// and each of the two must learn it.
#[test]
fn of_two_requests_the_slower_clock_counts_and_both_learn_it() {
    let (ends, clocks, _relays) = line();
    for end in &ends {
        end.wait_for_start().expect("all are there");
    }
    let [slow, fast] = [3.0, 2.0].map(|factor| Dilation::new(factor).expect("a dilation"));
    let at = ends[0].raise(CAUSE).expect("the line");
    assert_eq!(ends[1].raise(CAUSE).expect("the line"), at);
    ends[0].dilate(slow).expect("the pause is held");
    ends[1].dilate(fast).expect("the pause is held");
    ends[0].lower(CAUSE, at).expect("another holds it");
    ends[1].lower(CAUSE, at).expect("it goes on");
    for end in &ends {
        let within = StdDuration::from_secs(60);
        let agreed = end.wait_for_end_of(at, within).expect("it goes on");
        assert_eq!(agreed, Some(slow));
    }
    for clock in &clocks {
        eventually("it goes on", || {
            clock.state().dilations.last() == Some(&slow)
        });
    }
    ends.iter().for_each(Udp::end);
}

/// A machine whose clock cannot have the agreed dilation must stop all, and must state the reason:
/// none may continue at another rate.
#[test]
fn a_machine_that_cannot_follow_the_rate_stops_all() {
    let (ends, clocks, _relays) = line();
    for end in &ends {
        end.wait_for_start().expect("all are there");
    }
    let fast = Dilation::new(0.01).expect("a dilation");
    clocks[1].state().refuses = Some(fast);
    let at = ends[0].raise(CAUSE).expect("the line");
    ends[0].dilate(fast).expect("the pause is held");
    ends[0].lower(CAUSE, at).expect("it goes on");
    for (end, clock) in ends.iter().zip(&clocks) {
        eventually("it stops", || clock.state().halted);
        let why = end.halted().expect("a reason").to_string();
        assert!(why.contains("clock or processes of b"), "{why}");
    }
    let why = ends[1].halted().expect("a reason").to_string();
    assert!(why.contains("this clock cannot be so fast"), "{why}");
    assert_ne!(clocks[1].state().dilations.last(), Some(&fast));
}
