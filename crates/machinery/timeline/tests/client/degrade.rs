//! Tests of the state machine of graceful degradation. All sequences of inputs up to some length,
//! and random ones, are checked against its invariants.

use proptest::prelude::*;
use timeloom_clock::Monotonic;
use timeloom_time::{Duration, Instant};
use timeloom_timeline::{
    BadPolicy, Change, Degradation, Interval, Mode, Policy, Reason, Requirement, Stamp, Status,
    TimelineId,
};

type At = Instant<Monotonic>;

const KEEP_US: i64 = 100;
const REGAIN_US: i64 = 75;

fn ms(ms: i64) -> Duration {
    Duration::from_ms(ms)
}

fn at(ms: i64) -> At {
    Instant::from_ns(ms * 1_000_000)
}

fn policy() -> Policy {
    Policy {
        keep: Requirement::within(Duration::from_us(KEEP_US)),
        regain: Requirement::within(Duration::from_us(REGAIN_US)),
        hold_for: ms(30),
        steady: ms(20),
        blind_after: ms(10),
    }
}

/// Input to the controller under test.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Input {
    /// Reading with an interval that extends this many microseconds to either side.
    Read(Status, i64),
    Void(Status),
    Violated,
    Restored,
    Withdraw,
    Rejoined,
    /// Wait of this many milliseconds.
    Wait(i64),
}
use Input::*;

const ALPHABET: [Input; 11] = [
    Read(Status::Ok, 50),
    Read(Status::Ok, 80),
    Read(Status::SourceLost, 101),
    Read(Status::DaemonDead, 50),
    Void(Status::Disrupted),
    Violated,
    Restored,
    Withdraw,
    Rejoined,
    Wait(9),
    Wait(21),
];

impl Input {
    fn stamp(self) -> Option<Stamp> {
        let id = TimelineId(7);
        match self {
            Read(status, us) => {
                let half = Duration::from_us(us);
                let interval = Interval::around(Instant::from_ns(5), half, half);
                Some(Stamp::new(id, status, interval))
            }
            Void(status) => Some(Stamp::void(id, status)),
            _ => None,
        }
    }

    /// Returns true if the input shows that time is too inaccurate for the coordinated mode.
    fn is_bad(self) -> bool {
        match self {
            Read(status, us) => status == Status::DaemonDead || us > KEEP_US,
            Void(_) | Violated | Withdraw => true,
            _ => false,
        }
    }

    /// Returns true if the input ends a period of good time before the controller may rejoin.
    fn breaks(self) -> bool {
        self.is_bad() || matches!(self, Read(_, us) if us > REGAIN_US)
    }

    fn give(self, machine: &mut Degradation, now: At) -> Option<Mode> {
        if let Some(stamp) = self.stamp() {
            return machine.read(now, &stamp);
        }
        match self {
            Violated => machine.told(
                now,
                &Change::Violated {
                    status: Status::SourceLost,
                    sides: None,
                    why: String::new(),
                },
            ),
            Restored => machine.told(now, &Change::Restored),
            Withdraw => machine.withdraw(now),
            Rejoined => machine.rejoined(now),
            _ => machine.wake(now),
        }
    }
}

/// Inputs so far, from which the invariants follow.
#[derive(Clone, Debug)]
struct History {
    machine: Degradation,
    now: i64,
    /// Inputs other than waiting, each with its instant in milliseconds.
    happened: Vec<(i64, Input)>,
    entered: i64,
}

impl History {
    fn new() -> Self {
        Self {
            machine: Degradation::new(policy(), at(0)).unwrap(),
            now: 0,
            happened: Vec::new(),
            entered: 0,
        }
    }

    /// Applies one input. The machine is woken at every instant for which it requests it.
    fn step(&mut self, input: Input) {
        if let Wait(length_ms) = input {
            let end = self.now + length_ms;
            while let Some(due) = self.machine.next_wake().filter(|due| *due <= at(end)) {
                self.now = (due - at(0)).as_ns() / 1_000_000;
                let before = self.machine.mode();
                let told = self.machine.wake(due);
                self.judge(before, told, None);
                assert!(self.machine.next_wake().is_none_or(|next| next > due));
            }
            self.now = end;
            let before = self.machine.mode();
            let told = self.machine.wake(at(end));
            assert_eq!(told, None, "{self:?}: what was due had been done");
            self.judge(before, told, None);
            return;
        }
        let before = self.machine.mode();
        self.happened.push((self.now, input));
        let told = input.give(&mut self.machine, at(self.now));
        self.judge(before, told, Some(input));
    }

    fn last(&self, of: impl Fn(Input) -> bool) -> Option<(i64, Input)> {
        self.happened
            .iter()
            .rev()
            .copied()
            .find(|(_, input)| of(*input))
    }

    /// Returns true if all inputs show that time is good enough.
    fn is_good(&self) -> bool {
        let reading = self.last(|input| input.stamp().is_some());
        let sees = reading.is_some_and(|(t, input)| !input.is_bad() && self.now < t + 10);
        let bound = self.last(|input| matches!(input, Violated | Restored));
        sees && bound.is_none_or(|(_, input)| input == Restored)
    }

    /// Returns the instant from which on time has met the tighter requirement without a break.
    fn good_since(&self) -> Option<i64> {
        let (mut since, mut bound, mut looked) = (None, true, None::<i64>);
        for (t, input) in &self.happened {
            if looked.is_some_and(|looked| *t >= looked + 10) {
                since = None;
            }
            match input {
                Violated => bound = false,
                Restored => bound = true,
                _ => {}
            }
            if input.stamp().is_some() {
                looked = Some(*t);
            }
            if input.breaks() || !bound {
                since = None;
            } else if input.stamp().is_some() {
                since = since.or(Some(*t));
            }
        }
        since.filter(|_| looked.is_some_and(|looked| self.now < looked + 10))
    }

    fn judge(&mut self, before: Mode, told: Option<Mode>, input: Option<Input>) {
        let mode = self.machine.mode();
        assert_eq!(told, (mode != before).then_some(mode), "{self:?}");
        if mode != before {
            self.entered = self.now;
        }
        let acts = matches!(mode, Mode::Coordinated | Mode::Rejoining);
        assert!(!acts || self.is_good(), "{self:?}: acts by bad time");
        if mode == Mode::Coordinated && before != mode {
            assert_eq!((before, input), (Mode::Rejoining, Some(Rejoined)));
        }
        let steady = self.good_since().is_some_and(|t| self.now >= t + 20);
        if mode == Mode::Rejoining && before != mode {
            assert!(steady, "{self:?}: back too early");
        }
        if matches!(mode, Mode::Hold | Mode::Stopped) {
            assert!(!steady, "{self:?}: stands though all is good");
        }
        if mode == Mode::Hold {
            assert!(self.now < self.entered + 30, "{self:?}: holds for ever");
            assert!(before == mode || before == Mode::Coordinated || before == Mode::Rejoining);
        }
        if mode == Mode::Stopped && before != mode {
            assert_eq!(self.machine.reason(), Reason::HeldTooLong);
        }
    }
}

fn every_sequence(history: &History, left: usize) -> u64 {
    if left == 0 {
        return 1;
    }
    let mut count = 0;
    for input in ALPHABET {
        let mut next = history.clone();
        next.step(input);
        count += every_sequence(&next, left - 1);
    }
    count
}

/// Creates a controller in [`Mode::Coordinated`].
fn coordinated() -> History {
    let mut history = History::new();
    for input in [
        Restored,
        Read(Status::Ok, 50),
        Wait(9),
        Read(Status::Ok, 50),
        Wait(9),
        Read(Status::Ok, 50),
        Wait(9),
        Rejoined,
    ] {
        history.step(input);
    }
    assert_eq!(history.machine.mode(), Mode::Coordinated);
    history
}

#[test]
fn no_sequence_of_events_leads_to_acting_by_bad_time() {
    let sequences = every_sequence(&History::new(), 5) + every_sequence(&coordinated(), 5);
    assert_eq!(sequences, 2 * 11_u64.pow(5));
}

#[test]
fn the_way_out_and_back_with_its_reasons() {
    let mut machine = Degradation::new(policy(), at(0)).unwrap();
    assert_eq!(
        (machine.mode(), machine.next_wake()),
        (Mode::Stopped, None),
        "it begins still, and nothing happens by itself"
    );
    let good = Read(Status::Ok, 50);
    for t in [0, 8, 16] {
        assert_eq!(good.give(&mut machine, at(t)), None);
    }
    assert_eq!(machine.next_wake(), Some(at(20)));
    assert_eq!(machine.wake(at(20)), Some(Mode::Rejoining));
    assert_eq!(machine.rejoined(at(21)), Some(Mode::Coordinated));
    assert_eq!(machine.rejoined(at(22)), None);
    assert_eq!(machine.next_wake(), Some(at(26)), "blind then");
    // A reading between the two limits keeps the mode, but would not permit the controller to
    // rejoin.
    assert_eq!(Read(Status::Ok, 80).give(&mut machine, at(24)), None);
    let wide = Read(Status::SourceLost, 101);
    assert_eq!(wide.give(&mut machine, at(25)), Some(Mode::Hold));
    assert!(matches!(machine.reason(), Reason::Reading(_)));
    assert_eq!(machine.next_wake(), Some(at(55)));
    assert_eq!(machine.wake(at(55)), Some(Mode::Stopped));
    assert_eq!(machine.reason(), Reason::HeldTooLong);
    for t in [60, 68, 76, 79] {
        assert_eq!(good.give(&mut machine, at(t)), None);
    }
    assert_eq!(good.give(&mut machine, at(80)), Some(Mode::Rejoining));
    let dead = Read(Status::DaemonDead, 50);
    assert_eq!(dead.give(&mut machine, at(81)), Some(Mode::Hold));
    assert_eq!(
        machine.reason(),
        Reason::DaemonDead,
        "narrow, but no longer renewed"
    );
}

#[test]
fn a_daemon_that_dies_in_silence_is_noticed_by_readers() {
    // No event reports the dead daemon: only the page ages, and the status of its readings changes.
    let mut history = coordinated();
    history.step(Read(Status::DaemonDead, 50));
    assert_eq!(history.machine.mode(), Mode::Hold);
    // A controller that takes no readings cannot detect the dead daemon.
    let mut history = coordinated();
    history.step(Wait(9));
    assert_eq!(history.machine.mode(), Mode::Hold);
    assert_eq!(history.machine.reason(), Reason::Blind);
}

#[test]
fn policies_that_make_no_sense_are_refused() {
    let made = |policy| Degradation::new(policy, at(0)).map(|machine| machine.mode());
    let loose = Policy {
        regain: Requirement::within(Duration::from_us(KEEP_US + 1)),
        ..policy()
    };
    assert_eq!(made(loose), Err(BadPolicy::LooseRegain));
    for (hold_for, steady) in [(ms(-1), ms(1)), (ms(1), ms(-1))] {
        let policy = Policy {
            hold_for,
            steady,
            ..policy()
        };
        assert_eq!(made(policy), Err(BadPolicy::NegativeLength));
    }
    let blind = Policy {
        blind_after: ms(0),
        ..policy()
    };
    assert_eq!(made(blind), Err(BadPolicy::AlwaysBlind));
    assert_eq!(
        made(Policy::within(Duration::from_us(100))),
        Ok(Mode::Stopped)
    );
}

fn any_input() -> impl Strategy<Value = Input> {
    prop_oneof![
        4 => Just(Read(Status::Ok, 50)),
        6 => (0_i64..40).prop_map(Wait),
        3 => proptest::sample::select(ALPHABET.to_vec()),
        1 => (60_i64..120).prop_map(|us| Read(Status::SourceLost, us)),
        2 => Just(Rejoined),
    ]
}

proptest! {
    #[test]
    fn long_lives_hold_it_too(inputs in proptest::collection::vec(any_input(), 0..200)) {
        let mut history = History::new();
        for input in inputs {
            history.step(input);
        }
    }

    #[test]
    fn a_late_wake_up_ends_in_the_mode_of_a_punctual_one(
        inputs in proptest::collection::vec(any_input(), 0..60),
    ) {
        let mut punctual = History::new();
        let mut late = Degradation::new(policy(), at(0)).unwrap();
        for input in inputs {
            punctual.step(input);
            if !matches!(input, Wait(_)) {
                input.give(&mut late, at(punctual.now));
                prop_assert_eq!(late, punctual.machine);
            }
        }
    }

    #[test]
    fn no_instant_breaks_it(instants in proptest::collection::vec(any::<i64>(), 1..20)) {
        let mut machine = Degradation::new(policy(), Instant::from_ns(0)).unwrap();
        let mut latest = Instant::from_ns(0);
        let at_the_end = Instant::from_ns(i64::MAX);
        for ns in instants {
            let now = Instant::from_ns(ns);
            latest = latest.max(now);
            Read(Status::Ok, 50).give(&mut machine, now);
            machine.rejoined(now);
            prop_assert!(machine.next_wake().is_none_or(|next| next > latest || next == at_the_end));
        }
    }
}
