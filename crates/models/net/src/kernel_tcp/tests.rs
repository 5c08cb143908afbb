//! Retransmissions by the network for a kernel whose timers never expire, without sockets and
//! links.

use std::net::IpAddr;

use timeloom_engine::Random;
use timeloom_time::{Duration, Instant, Virtual};

use super::segment::{Connection, SackBlocks, Segment};
use super::{Action, Fate, Neighbours, TcpTimers, Word};

const TICK: Duration = Duration::from_ms(4);

/// Simulated host. Copies of its segments are numbered in the order of sending.
struct Host {
    timers: TcpTimers<u32>,
    sent: u32,
    forgotten: Vec<u32>,
    /// Origin of the time stamp that the next arriving segment echoes.
    echo: Option<Instant<Virtual>>,
    now: Instant<Virtual>,
}

fn connection() -> Connection {
    Connection {
        local: "10.0.0.1:40000".parse().unwrap(),
        remote: "10.0.0.2:80".parse().unwrap(),
    }
}

fn segment(seq: u32, payload: u32, flags: u8, ack: u32) -> Segment {
    Segment {
        connection: connection(),
        seq,
        payload,
        each: payload.max(1),
        flags,
        ack,
        window: 60_000,
        sack: SackBlocks::default(),
        permits_sack: true,
        scale: Some(0),
        stamps: None,
    }
}

impl Host {
    fn new() -> Self {
        Self {
            timers: TcpTimers::new(TICK, Random::new(1, 0)),
            sent: 0,
            forgotten: Vec::new(),
            echo: None,
            now: Instant::ZERO,
        }
    }

    /// Returns a host with an open connection and round trips of 20 ms. Its next sequence number is
    /// 1000, its peer's 9000.
    fn connected() -> Self {
        let mut host = Self::new();
        host.send(segment(999, 0, Segment::SYN, 0));
        host.pass_ms(20);
        host.hear(segment(8999, 0, Segment::SYN | Segment::ACK, 1000));
        host.send(segment(1000, 0, Segment::ACK, 9000));
        host
    }

    fn send(&mut self, segment: Segment) -> Fate {
        let mut out = Vec::new();
        let copy = segment.needs_copy().then_some((self.sent, self.now));
        self.sent += u32::from(copy.is_some());
        let fate = self.timers.handle_sent(self.now, &segment, copy, &mut out);
        if fate == Fate::Hold {
            self.timers.hold(self.now, &segment, HELD, &mut out);
        }
        self.note(&out);
        fate
    }

    fn hear(&mut self, mut segment: Segment) {
        segment.connection = connection().reversed();
        let mut out = Vec::new();
        let sent = self.now - Duration::from_ms(10);
        let stamps = (sent, self.echo.take());
        self.timers
            .handle_received(self.now, &segment, stamps, &mut out);
        self.note(&out);
    }

    fn pass_ms(&mut self, ms: i64) {
        self.now += Duration::from_ms(ms);
    }

    /// Advances time to the next timer; returns the time that passed, and the timer's actions.
    fn next(&mut self) -> (i64, Vec<Action<u32>>) {
        let due = self.timers.next_wake().expect("a timer");
        let passed = due - self.now;
        self.now = due;
        let mut out = Vec::new();
        self.timers.handle_wake(due, &mut out);
        self.note(&out);
        (passed.as_ns() / 1_000_000, out)
    }

    /// Advances like [`Host::next`], but also past timers that only set another timer.
    fn next_act(&mut self) -> (i64, Vec<Action<u32>>) {
        let mut passed = 0;
        loop {
            let (ms, out) = self.next();
            passed += ms;
            if !out.is_empty() {
                return (passed, out);
            }
        }
    }

    fn note(&mut self, out: &[Action<u32>]) {
        let forgotten = out.iter().filter_map(|action| match action {
            Action::Forget(copy) => Some(*copy),
            _ => None,
        });
        self.forgotten.extend(forgotten);
    }
}

const HELD: u32 = 7_777;
const DATA: u8 = Segment::ACK | Segment::PSH;

#[track_caller]
fn about(ms: i64, wanted: i64, late: i64) {
    assert!(
        (wanted - 4..=wanted + late).contains(&ms),
        "{ms} ms for {wanted}"
    );
}

#[test]
fn a_syn_is_sent_again_after_a_second_each_and_then_ever_more_rarely() {
    let mut host = Host::new();
    host.send(segment(999, 0, Segment::SYN, 0));
    for wanted_s in [1, 1, 1, 1, 1, 2] {
        let (ms, out) = host.next();
        about(ms, wanted_s * 1_000, 132);
        assert_eq!(out, [Action::Again(0, 0)]);
    }
    let (ms, out) = host.next();
    about(ms, 4_000, 260);
    assert_eq!(out, [], "the program would be told");
    assert_eq!(host.timers.stats(host.now).given_up, 1);
    assert_eq!(host.timers.next_wake(), None);
}

#[test]
fn a_syn_ack_is_sent_again_after_twice_as_long_each_time() {
    let mut host = Host::new();
    host.send(segment(999, 0, Segment::SYN | Segment::ACK, 5));
    for wanted_s in [1, 2, 4, 8, 16] {
        let (ms, out) = host.next();
        about(ms, wanted_s * 1_000, wanted_s * 130);
        assert_eq!(out, [Action::Again(0, 0)]);
    }
    host.hear(segment(5, 0, Segment::ACK, 1000));
    assert_eq!(
        (host.timers.next_wake(), &*host.forgotten),
        (None, &[0][..])
    );
}

/// A probe follows after two round trips plus 200 ms, which is not later than the timeout. After it
/// come timeouts at growing intervals.
#[test]
fn a_lost_request_is_probed_for_and_then_times_out() {
    let mut host = Host::connected();
    host.send(segment(1000, 12, DATA, 9000));
    let (ms, out) = host.next();
    about(ms, 220, 8);
    assert_eq!(out, [Action::Again(1, 0)]);
    for wanted in [220, 440, 880] {
        let (ms, out) = host.next();
        about(ms, wanted, 36);
        assert_eq!(out, [Action::Again(1, 0)]);
    }
    host.pass_ms(20);
    host.hear(segment(9000, 0, Segment::ACK, 1012));
    assert_eq!(host.timers.next_wake(), None);
    assert_eq!(host.forgotten, [0, 1]);
    let stats = host.timers.stats(host.now);
    assert_eq!((stats.probes, stats.timeouts, stats.collapses), (1, 3, 0));
}

/// The answer to a probed request may echo the first copy. It then gives a long round-trip time,
/// and the next probe is later.
#[test]
fn round_trips_count_from_the_echoed_time_stamp() {
    let next_probe = |is_of_first: bool| {
        let mut host = Host::connected();
        let first = host.now;
        host.send(segment(1000, 12, DATA, 9000));
        host.next();
        let probe = host.now;
        host.pass_ms(20);
        host.echo = Some(if is_of_first { first } else { probe });
        host.hear(segment(9000, 12, DATA, 1012));
        host.send(segment(1012, 12, DATA, 9012));
        host.next().0
    };
    about(next_probe(false), 220, 12);
    let after_long = next_probe(true);
    assert!((260..400).contains(&after_long), "{after_long} ms");
}

/// If a SYN-ACK is lost, the SYN gets a round-trip time of more than a second, since the answer
/// echoes the first SYN. The next loss has a correspondingly long timeout.
#[test]
fn a_lost_syn_ack_makes_the_first_timeouts_long() {
    let mut server = Host::new();
    let mut syn = segment(999, 0, Segment::SYN, 0);
    server.hear(syn);
    let answer = segment(8999, 0, Segment::SYN | Segment::ACK, 1000);
    server.send(answer);
    let first = server.timers.echo_at(&answer, server.now);
    assert_eq!(first, Some(Instant::ZERO - Duration::from_ms(10)));
    server.pass_ms(1_000);
    syn.flags = Segment::SYN;
    server.hear(syn);
    server.send(answer);
    assert_eq!(server.timers.echo_at(&answer, server.now), first);

    let mut client = Host::new();
    client.send(segment(999, 0, Segment::SYN, 0));
    client.next();
    client.pass_ms(20);
    client.echo = Some(Instant::ZERO);
    client.hear(answer);
    client.send(segment(1000, 0, Segment::ACK, 9000));
    client.send(segment(1000, 12, DATA, 9000));
    let (ms, _) = client.next();
    assert!((2_000..2_600).contains(&ms), "{ms} ms");
}

/// A host echoes the time stamp of the first segment that it has not acknowledged, not of later
/// ones.
#[test]
fn a_host_echoes_the_first_unacknowledged_time_stamp() {
    let mut host = Host::connected();
    let connection = segment(1000, 0, Segment::ACK, 9000);
    let echo = |host: &Host| host.timers.echo_at(&connection, host.now);
    host.hear(segment(9000, 1_000, Segment::ACK, 1000));
    let first = host.now - Duration::from_ms(10);
    assert_eq!(echo(&host), Some(first));
    host.pass_ms(3);
    host.hear(segment(10_000, 1_000, Segment::ACK, 1000));
    assert_eq!(echo(&host), Some(first));
    host.send(segment(1000, 0, Segment::ACK, 11_000));
    host.hear(segment(11_000, 1_000, Segment::ACK, 1000));
    assert_eq!(echo(&host), Some(host.now - Duration::from_ms(10)));
}

#[test]
fn of_a_train_the_last_segment_is_probed_for() {
    let mut host = Host::connected();
    let mut train = segment(1000, 4_500, DATA, 9000);
    train.each = 1_000;
    host.send(train);
    let (ms, out) = host.next();
    about(ms, 42, 8);
    assert_eq!(out, [Action::Again(1, 4)]);
}

#[test]
fn a_fin_is_sent_again_and_the_connection_forgotten() {
    let mut host = Host::connected();
    host.send(segment(1000, 0, Segment::FIN | Segment::ACK, 9000));
    assert_eq!(host.next().1, [Action::Again(1, 0)]);
    host.hear(segment(9000, 0, Segment::FIN | Segment::ACK, 1001));
    host.send(segment(1001, 0, Segment::ACK, 9001));
    while host.timers.next_wake().is_some() {
        host.next();
    }
    assert!(host.timers.connections.is_empty());
    assert_eq!(host.forgotten, [0, 1]);
}

/// The kernel repairs a gap that acknowledgements reveal, and no probe is sent meanwhile.
#[test]
fn a_retransmission_by_the_kernel_restarts_the_timer() {
    let mut host = Host::connected();
    for number in 0..4 {
        host.send(segment(1000 + number * 100, 100, DATA, 9000));
    }
    host.pass_ms(20);
    let mut gap = segment(9000, 0, Segment::ACK, 1000);
    gap.sack = SackBlocks::new(&[(1100, 1400)]);
    host.hear(gap);
    host.send(segment(1000, 100, DATA, 9000));
    let (ms, out) = host.next_act();
    about(ms, 220, 8);
    assert_eq!(out, [Action::Again(1, 0)]);
    assert_eq!(host.timers.stats(host.now).probes, 0);
}

/// A whole flight of segments is lost. Once the first has arrived, the rest follows by slow start,
/// without a timeout for each segment.
#[test]
fn after_a_timeout_the_rest_of_the_flight_follows() {
    let mut host = Host::connected();
    for number in 0..8 {
        host.send(segment(1000 + number * 100, 100, DATA, 9000));
    }
    let (_, probe) = host.next();
    assert_eq!(probe, [Action::Again(8, 0)]);
    assert_eq!(host.next().1, [Action::Again(1, 0)]);
    host.pass_ms(20);
    host.hear(segment(9000, 0, Segment::ACK, 1100));
    let (ms, out) = host.next();
    about(ms, 1, 0);
    assert_eq!(out, [Action::Again(2, 0), Action::Again(3, 0)]);
    host.pass_ms(20);
    host.hear(segment(9000, 0, Segment::ACK, 1300));
    assert_eq!(host.next().1.len(), 4);
    assert_eq!(host.timers.stats(host.now).collapses, 1);
}

#[test]
fn a_kernel_that_goes_on_by_itself_is_left_to_it() {
    let mut host = Host::connected();
    for number in 0..3 {
        host.send(segment(1000 + number * 100, 100, DATA, 9000));
    }
    host.next();
    host.next();
    host.pass_ms(20);
    host.hear(segment(9000, 0, Segment::ACK, 1100));
    host.send(segment(1300, 100, DATA, 9000));
    let (ms, _) = host.next_act();
    assert!(ms > 100, "{ms}");
}

/// A peer with a closed window answers a duplicate with its present window.
#[test]
fn a_closed_window_is_asked_about() {
    let mut host = Host::connected();
    host.send(segment(1000, 100, DATA, 9000));
    host.pass_ms(20);
    let mut closed = segment(9000, 0, Segment::ACK, 1100);
    closed.window = 0;
    host.hear(closed);
    for wanted in [220, 440] {
        let (ms, out) = host.next();
        about(ms, wanted, 36);
        assert_eq!(out, [Action::Again(1, 0)]);
    }
    host.hear(segment(9000, 0, Segment::ACK, 1100));
    assert_eq!(
        (host.timers.next_wake(), &*host.forgotten),
        (None, &[0, 1][..])
    );
}

#[test]
fn acknowledgements_of_a_host_that_answers_are_delayed() {
    let mut host = Host::connected();
    host.hear(segment(9000, 10, DATA, 1000));
    assert_eq!(host.send(segment(1000, 0, Segment::ACK, 9010)), Fate::Pass);
    host.send(segment(1000, 10, DATA, 9010));
    host.hear(segment(9010, 10, DATA, 1010));
    assert_eq!(host.send(segment(1010, 0, Segment::ACK, 9020)), Fate::Hold);
    let (ms, out) = host.next();
    about(ms, 40, 4);
    assert_eq!(out, [Action::Release(HELD)]);
}

#[test]
fn a_delayed_acknowledgement_goes_with_data_or_with_a_second_segment() {
    let mut host = Host::connected();
    host.hear(segment(9000, 1_000, Segment::ACK, 1000));
    host.send(segment(1000, 10, DATA, 10_000));
    host.hear(segment(10_000, 1_000, Segment::ACK, 1010));
    assert_eq!(
        host.send(segment(1010, 0, Segment::ACK, 11_000)),
        Fate::Hold
    );
    host.hear(segment(11_000, 1_000, Segment::ACK, 1010));
    assert_eq!(
        host.send(segment(1010, 0, Segment::ACK, 12_000)),
        Fate::Pass
    );
    assert_eq!(host.forgotten.last(), Some(&HELD));
    host.hear(segment(12_000, 1_000, Segment::ACK, 1010));
    assert_eq!(
        host.send(segment(1010, 0, Segment::ACK, 13_000)),
        Fate::Hold
    );
    host.send(segment(1010, 10, DATA, 13_000));
    assert_eq!(host.forgotten.last(), Some(&HELD));
}

#[test]
fn a_gap_is_told_at_once() {
    let mut host = Host::connected();
    host.hear(segment(9000, 1_000, Segment::ACK, 1000));
    host.send(segment(1000, 10, DATA, 10_000));
    host.hear(segment(11_000, 1_000, Segment::ACK, 1010));
    let mut gap = segment(1010, 0, Segment::ACK, 10_000);
    gap.sack = SackBlocks::new(&[(11_000, 12_000)]);
    assert_eq!(host.send(gap), Fate::Pass);
    host.hear(segment(10_000, 1_000, Segment::ACK, 1010));
    assert_eq!(
        host.send(segment(1010, 0, Segment::ACK, 12_000)),
        Fate::Pass
    );
}

#[test]
fn another_connection_of_the_same_ends_begins_anew() {
    let mut host = Host::connected();
    host.send(segment(1000, 100, DATA, 9000));
    host.send(segment(77_000, 0, Segment::SYN, 0));
    assert_eq!(host.forgotten, [0, 1]);
    assert_eq!(host.next().1, [Action::Again(2, 0)]);
    host.hear(segment(5, 0, Segment::RST | Segment::ACK, 77_001));
    assert_eq!(
        (host.timers.next_wake(), &*host.forgotten),
        (None, &[0, 1, 2][..])
    );
}

/// A RST is obeyed only if it has the next expected number; an acknowledgement counts only if its
/// segment overlaps the offered window.
#[test]
fn forged_segments_end_no_connection_and_acknowledge_nothing() {
    let mut host = Host::connected();
    host.send(segment(1000, 100, DATA, 9000));
    host.hear(segment(123_456, 0, Segment::RST, 0));
    host.hear(segment(8_999, 0, Segment::RST, 0));
    host.hear(segment(9_001, 0, Segment::RST | Segment::ACK, 1100));
    host.hear(segment(69_001, 0, Segment::ACK, 1100));
    host.hear(segment(8_000, 0, Segment::ACK | Segment::FIN, 1100));
    assert_eq!(
        (host.forgotten.len(), host.timers.stats(host.now).foreign),
        (1, 0)
    );
    assert_eq!(host.next_act().1, [Action::Again(1, 0)]);
    // Data has arrived that the kernel has not acknowledged yet.
    host.hear(segment(9_000, 50, DATA, 1000));
    host.hear(segment(9_050, 0, Segment::RST, 0));
    assert_eq!(
        (host.timers.next_wake(), &*host.forgotten),
        (None, &[0, 1][..])
    );
}

/// A kernel stops sending also when the window has less room than a segment, and its own timer for
/// window probes is too late.
#[test]
fn a_window_smaller_than_a_segment_is_asked_about() {
    let mut host = Host::new();
    host.send(segment(999, 0, Segment::SYN, 0));
    let mut answer = segment(8999, 0, Segment::SYN | Segment::ACK, 1000);
    answer.scale = Some(4);
    host.pass_ms(20);
    host.hear(answer);
    host.send(segment(1000, 1_000, DATA, 9000));
    host.pass_ms(20);
    let mut small = segment(9000, 0, Segment::ACK, 2000);
    small.window = 62; // 992 bytes
    host.hear(small);
    assert_eq!(host.next().1, [Action::Again(1, 0)]);
    small.window = 63;
    host.hear(small);
    assert_eq!(host.timers.next_wake(), None);
}

/// Lossless traffic of other connections does not hide one with many losses.
#[test]
fn a_lossy_connection_counts_by_itself() {
    let mut host = Host::connected();
    let mut seq = 1000;
    for number in 0..140 {
        host.send(segment(seq, 100, DATA, 9000));
        if number % 5 == 0 {
            host.send(segment(seq, 100, DATA, 9000));
        }
        seq += 100;
        host.pass_ms(1);
        host.hear(segment(9000, 0, Segment::ACK, seq));
    }
    let stats = host.timers.stats(host.now);
    assert_eq!((stats.resent, stats.lossy, stats.connections), (0, 1, 1));
}

/// Retransmissions count only where congestion control has an effect.
#[test]
fn connections_with_three_segments_in_flight_depend_on_congestion_control() {
    for (flight, counted) in [(2, 0), (3, 1)] {
        let mut host = Host::connected();
        for number in 0..flight {
            host.send(segment(1000 + number * 100, 100, DATA, 9000));
        }
        host.send(segment(1000, 100, DATA, 9000));
        assert_eq!(host.timers.stats(host.now).resent, counted, "{flight}");
    }
    // The congestion window counts segments, not bytes.
    let mut host = Host::connected();
    host.send(segment(1000, 1000, DATA, 9000));
    host.pass_ms(20);
    host.hear(segment(9000, 0, Segment::ACK, 2000));
    for number in 0..3 {
        host.send(segment(2000 + number * 100, 100, DATA, 9000));
    }
    host.send(segment(2000, 100, DATA, 9000));
    assert_eq!(host.timers.stats(host.now).resent, 1);
}

#[test]
fn idle_time_counts_while_both_ends_are_open() {
    let mut host = Host::connected();
    host.pass_ms(5_000);
    host.send(segment(1000, 0, Segment::FIN | Segment::ACK, 9000));
    host.pass_ms(70_000);
    let stats = host.timers.stats(host.now);
    assert_eq!(stats.longest_idle, Duration::from_ms(5_000));
}

#[test]
fn acknowledgements_of_unsent_data_are_counted() {
    let mut host = Host::connected();
    host.hear(segment(9000, 0, Segment::ACK, 4000));
    assert_eq!(host.timers.stats(host.now).foreign, 1);
}

#[test]
fn a_neighbour_is_asked_for_three_times() {
    let address: IpAddr = "10.0.0.9".parse().unwrap();
    let mut neighbours: Neighbours<u32> = Neighbours::new(TICK, Random::new(2, 0));
    let mut out = Vec::new();
    neighbours.handle_question(Instant::ZERO, address, 1, &mut out);
    let mut acts = Vec::new();
    while let Some(due) = neighbours.next_wake() {
        neighbours.handle_wake(due, &mut acts);
    }
    assert_eq!(
        acts,
        [Action::Again(1, 0), Action::Again(1, 0), Action::Forget(1)]
    );
    assert_eq!(neighbours.unresolved, 1);

    neighbours.handle_question(Instant::ZERO, address, 2, &mut out);
    let later = Instant::ZERO + Duration::from_ms(1_020);
    neighbours.handle_received(later, Word::Tells(address), Some(address), &mut out);
    assert_eq!(neighbours.waited_since(later), Some(Instant::ZERO));
    assert_eq!(neighbours.waited_since(later + Duration::from_ms(9)), None);
    assert_eq!(
        (neighbours.next_wake(), &*out),
        (None, &[Action::Forget(2)][..])
    );
}
