//! Tests with every sequence of possible events of a line, and with the events that the line then
//! reports.

use timeloom_bus::{Edge, Fault, Levels, LineEvent, LineSettings, LineState};
use timeloom_time::{Duration, Instant, Wall};

/// Event on a line with two inputs.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Happens {
    /// The level changes, with an edge.
    Changes,
    /// The level changes within the debounce time of the previous edge.
    Bounces,
    /// The level changes, but the kernel misses the edge.
    IsMissed,
    /// The level changes, and the kernel counts the edge but drops it.
    IsDropped,
    /// An edge to the level that the line already has is delivered.
    Doubles,
    /// Time passes, and the line is read.
    Rests,
    /// The line is read at once.
    Looks,
}

const ALL: [Happens; 7] = [
    Happens::Changes,
    Happens::Bounces,
    Happens::IsMissed,
    Happens::IsDropped,
    Happens::Doubles,
    Happens::Rests,
    Happens::Looks,
];

/// Line under test, with its true state.
struct Bench {
    line: LineState,
    now: Instant<Wall>,
    high: bool,
    numbers: [u32; 2],
    /// Changes of the level whose edge was delivered.
    told: Vec<(bool, Instant<Wall>)>,
    events: Vec<LineEvent>,
}

impl Bench {
    fn new() -> Self {
        let now = Instant::from_ns(1_000_000);
        let low = Levels {
            rising: false,
            falling: false,
        };
        Self {
            line: LineState::new(LineSettings::default(), low, now),
            now,
            high: false,
            numbers: [0; 2],
            told: Vec::new(),
            events: Vec::new(),
        }
    }

    fn levels(&self) -> Levels {
        Levels {
            rising: self.high,
            falling: self.high,
        }
    }

    fn look(&mut self) {
        self.line.look(self.levels(), self.now);
        self.hear();
    }

    fn hear(&mut self) {
        self.events
            .extend(std::iter::from_fn(|| self.line.poll_event()));
    }

    fn edge(&mut self, is_told: bool) {
        let number = &mut self.numbers[usize::from(self.high)];
        *number += 1;
        let edge = Edge {
            rising: self.high,
            at: self.now,
            number: *number,
        };
        if is_told {
            self.told.push((self.high, self.now));
            self.line.edge(edge);
        }
        self.hear();
    }

    fn rest(&mut self) {
        self.now += Duration::from_ms(105);
        self.look();
    }

    fn happen(&mut self, what: Happens) {
        match what {
            Happens::Rests => return self.rest(),
            Happens::Looks => return self.look(),
            Happens::Bounces => self.now += Duration::from_us(5),
            _ => self.now += Duration::from_ms(1),
        }
        match what {
            Happens::Changes | Happens::Bounces => {
                self.high = !self.high;
                self.edge(true);
            }
            Happens::IsMissed => self.high = !self.high,
            Happens::IsDropped => {
                self.high = !self.high;
                self.edge(false);
            }
            _ => self.edge(true),
        }
    }
}

/// Calls `check` with every sequence of `length` events from `of`; returns the number of sequences.
fn every(of: &[Happens], length: u32, check: impl Fn(&[Happens], &Bench)) -> usize {
    let count = of.len().pow(length);
    for index in 0..count {
        let sequence: Vec<Happens> = (0..length)
            .map(|at| of[index / of.len().pow(at) % of.len()])
            .collect();
        let mut bench = Bench::new();
        for what in &sequence {
            bench.happen(*what);
        }
        for _ in 0..3 {
            bench.rest();
        }
        check(&sequence, &bench);
    }
    count
}

/// After all events, the line has the true level. A change that it reported is a true one, or
/// follows the report of a missed edge.
#[test]
fn every_sequence_of_seven_ends_at_the_true_level() {
    let count = every(&ALL, 7, |sequence, bench| {
        let story = || format!("{sequence:?}: {:?}", bench.events);
        assert_eq!(bench.line.is_high(), bench.high, "{}", story());
        let mut high = false;
        for (index, event) in bench.events.iter().enumerate() {
            let (to, at) = match *event {
                LineEvent::Rose(at) => (true, at),
                LineEvent::Fell(at) => (false, at),
                _ => continue,
            };
            assert_ne!(to, high, "{}", story());
            high = to;
            let guess =
                index > 0 && bench.events[index - 1] == LineEvent::Fault(Fault::Missed { high });
            let true_edge = bench.told.contains(&(to, at));
            // The level changed and changed back within the debounce time, and the last edge gives
            // the time.
            let bounce = bench.told.iter().any(|(_, of)| *of == at);
            assert!(guess || true_edge || bounce, "{}", story());
            assert!(
                guess || true_edge || sequence.contains(&Happens::Bounces),
                "{}",
                story()
            );
        }
    });
    assert_eq!(count, 823_543);
}

/// A line without faults reports each change with its timestamp, and nothing else.
#[test]
fn a_sound_line_tells_every_change_and_no_fault() {
    let of = [Happens::Changes, Happens::Rests, Happens::Looks];
    every(&of, 9, |sequence, bench| {
        let told: Vec<LineEvent> = bench
            .told
            .iter()
            .map(|(high, at)| match high {
                true => LineEvent::Rose(*at),
                false => LineEvent::Fell(*at),
            })
            .collect();
        assert_eq!(bench.events, told, "{sequence:?}");
    });
}

/// A change within the debounce time of another one is not a fault, and is reported with its
/// timestamp. This holds if the line is read before the next change, and also if a thread is too
/// late for that.
#[test]
fn pulses_shorter_than_the_debounce_time_are_no_fault() {
    let of = [
        Happens::Changes,
        Happens::Bounces,
        Happens::Rests,
        Happens::Looks,
    ];
    every(&of, 8, |sequence, bench| {
        let mut high = false;
        for event in &bench.events {
            let (to, at) = match *event {
                LineEvent::Rose(at) => (true, at),
                LineEvent::Fell(at) => (false, at),
                _ => panic!("{sequence:?}: {:?}", bench.events),
            };
            assert_ne!(to, high, "{sequence:?}: {:?}", bench.events);
            assert!(
                bench.told.contains(&(to, at)),
                "{sequence:?}: {:?}",
                bench.events
            );
            high = to;
        }
        // The reported level is the one that the line had after the bounce.
        for pair in bench.told.windows(2) {
            let [(rests, since), (_, until)] = [pair[0], pair[1]];
            if until - since > Duration::from_us(20) {
                let told = level_at(&bench.events, since);
                assert_eq!(told, rests, "{sequence:?}: {:?}", bench.events);
            }
        }
    });
}

/// Returns the reported level at an instant; it is low at first.
fn level_at(events: &[LineEvent], at: Instant<Wall>) -> bool {
    let levels = events.iter().filter_map(|event| match *event {
        LineEvent::Rose(since) => Some((true, since)),
        LineEvent::Fell(since) => Some((false, since)),
        _ => None,
    });
    let mut until_then = levels.filter(|(_, since)| *since <= at);
    until_then.next_back().is_some_and(|(high, _)| high)
}

/// A kernel thread delivers an edge, and may have to wait for a processor until the line was read
/// at the end of the debounce time. The line must then be read again at once.
#[test]
fn a_short_pulse_whose_end_is_told_late_is_over_at_once() {
    let mut bench = Bench::new();
    bench.happen(Happens::Changes);
    let rose = bench.now;
    bench.high = false;
    bench.now = rose + Duration::from_us(20);
    bench.look();
    assert_eq!(
        bench.events,
        [LineEvent::Rose(rose)],
        "an edge may be under way"
    );
    let fell = rose + Duration::from_us(8);
    bench.line.edge(Edge {
        rising: false,
        at: fell,
        number: 1,
    });
    assert!(
        bench.line.next_wake() <= bench.now,
        "the next wake is in the future"
    );
    bench.look();
    assert_eq!(bench.events, [LineEvent::Rose(rose), LineEvent::Fell(fell)]);
}

/// A thread that waits for a processor learns of a pause's end when the line has already risen for
/// the next pause, and reads the line even later. That edge belongs to the next pause.
#[test]
fn the_edge_of_the_next_pause_is_not_charged_to_the_last() {
    let mut bench = Bench::new();
    for _ in 0..3 {
        bench.happen(Happens::Changes);
    }
    bench.line.pause_ended(true);
    bench.rest();
    bench.happen(Happens::Changes);
    bench.line.pause_ended(true);
    bench.rest();
    let unheard = LineEvent::Fault(Fault::Unheard);
    assert!(!bench.events.contains(&unheard), "{:?}", bench.events);
    // A pause without any edge is reported as a fault.
    for _ in 0..3 {
        bench.line.pause_ended(true);
        bench.rest();
    }
    assert!(bench.events.contains(&unheard), "{:?}", bench.events);
}

/// A single fault among changes that are reported is always detected, wherever it is.
#[test]
fn one_mistake_is_noticed_wherever_it_is() {
    let of = [Happens::Changes, Happens::Rests, Happens::Looks];
    let is_fault = |event: &LineEvent| matches!(event, LineEvent::Fault(_));
    for mistake in [Happens::IsMissed, Happens::IsDropped, Happens::Doubles] {
        let of: Vec<Happens> = of.iter().copied().chain([mistake]).collect();
        every(&of, 6, |sequence, bench| {
            let mistakes = sequence.iter().filter(|what| **what == mistake).count();
            if mistakes == 1 {
                let faults = bench.events.iter().filter(|event| is_fault(event)).count();
                // Before any rise, a falling edge counts as doubled too.
                assert!(faults > 0, "{sequence:?}: {:?}", bench.events);
            }
        });
    }
}

fn faults(bench: &mut Bench, levels: Levels, rests: usize) -> Vec<LineEvent> {
    bench.events.clear();
    for _ in 0..rests {
        bench.now += Duration::from_ms(25);
        bench.line.look(levels, bench.now);
        bench.hear();
    }
    bench.events.clone()
}

#[test]
fn a_line_that_stays_high_without_a_driver_is_stuck_until_it_falls() {
    let mut bench = Bench::new();
    bench.happen(Happens::Changes);
    // It is unknown which machine drives the line, so the line may be held for a good reason.
    let levels = bench.levels();
    assert!(faults(&mut bench, levels, 60).is_empty());
    bench.line.others_drive(true);
    assert!(faults(&mut bench, levels, 60).is_empty());
    bench.line.others_drive(false);
    assert!(faults(&mut bench, levels, 39).is_empty());
    let stuck = [LineEvent::Fault(Fault::StuckHigh)];
    assert_eq!(faults(&mut bench, levels, 60), stuck, "once");
    // Another machine drives the line and releases it. The line is still stuck.
    bench.line.others_drive(true);
    assert!(faults(&mut bench, levels, 3).is_empty());
    bench.line.others_drive(false);
    assert!(faults(&mut bench, levels, 60).is_empty());
    bench.events.extend(stuck);
    bench.happen(Happens::Changes);
    let at = bench.now;
    bench.events.retain(|event| *event != LineEvent::Fell(at));
    bench.rest();
    assert_eq!(bench.events, [stuck[0], LineEvent::Sound]);
}

#[test]
fn a_line_that_is_driven_and_stays_low_is_stuck() {
    let mut bench = Bench::new();
    let low = bench.levels();
    bench.line.drive(true, bench.now);
    assert!(faults(&mut bench, low, 39).is_empty());
    let stuck = LineEvent::Fault(Fault::StuckLow);
    assert_eq!(faults(&mut bench, low, 60), [stuck]);
    bench.line.drive(false, bench.now);
    assert_eq!(faults(&mut bench, low, 1), [LineEvent::Sound]);
    // Another machine drives the line, but no edge is delivered here.
    bench.line.others_drive(true);
    assert_eq!(faults(&mut bench, low, 60), [stuck]);
}

#[test]
fn inputs_that_differ_are_named_once_it_is_certain() {
    let mut bench = Bench::new();
    bench.happen(Happens::Changes);
    let differ = Levels {
        rising: false,
        falling: true,
    };
    assert!(faults(&mut bench, differ, 1).is_empty());
    let fault = LineEvent::Fault(Fault::Differ(differ));
    assert_eq!(faults(&mut bench, differ, 9), [fault]);
    // The level stays unchanged, because it is unknown which input is right.
    assert!(bench.line.is_high());
    let levels = bench.levels();
    assert_eq!(faults(&mut bench, levels, 1), [LineEvent::Sound]);
}

#[test]
fn a_pause_with_a_driven_line_must_have_had_an_edge() {
    let mut bench = Bench::new();
    for _ in 0..2 {
        bench.happen(Happens::Changes);
    }
    bench.line.pause_ended(true);
    bench.rest();
    assert!(!bench.events.contains(&LineEvent::Fault(Fault::Unheard)));
    // The next pause begins before the line is read.
    bench.happen(Happens::Changes);
    bench.line.pause_ended(true);
    bench.happen(Happens::Changes);
    bench.happen(Happens::Changes);
    bench.now += Duration::from_ms(5);
    bench.look();
    bench.happen(Happens::Changes);
    bench.line.pause_ended(true);
    bench.rest();
    assert!(!bench.events.contains(&LineEvent::Fault(Fault::Unheard)));
    bench.line.pause_ended(false);
    bench.rest();
    assert!(!bench.events.contains(&LineEvent::Fault(Fault::Unheard)));
    bench.line.pause_ended(true);
    bench.rest();
    assert_eq!(bench.events.last(), Some(&LineEvent::Fault(Fault::Unheard)));
}
