//! RVEC clock of a host whose core changes frequency, as a line from one change to the next.
//!
//! The chain is the paper's: the core counts cycles in its crystal's time ([`SimulatedCore`]), a
//! driver reports changes, and [`CoreClock`] converts the cycles to time that never steps back.
//! Between two changes that is a straight line, which a clock page can represent.

use timeloom_time::{Duration, Rate};

use super::frequencies::{FrequencyChange, FrequencyTrace, Governed, Governor};
use super::{Age, CoreClock, Frequency, SimulatedCore};

/// Source of a core's frequency changes.
#[derive(Clone, Debug, PartialEq)]
pub enum FrequencySource {
    /// List of changes.
    Trace(FrequencyTrace),
    /// A governor under load.
    Governor(Governor),
    /// Caller that reports each change ([`DrivenClock::handle_frequency`]); the value is the
    /// initial frequency.
    Told(Frequency),
}

/// Core whose cycles a host counts.
#[derive(Clone, Debug, PartialEq)]
pub struct CycleOptions {
    /// Source of the frequency changes.
    pub source: FrequencySource,
    /// Duration of a change. The core runs at the old frequency for half of it and at the new for
    /// the other half; the clock is not told the middle.
    pub switch: Duration,
}

/// The clock. Instants are lengths of its crystal's time since the start.
#[derive(Clone, Debug)]
pub struct DrivenClock {
    core: SimulatedCore,
    clock: CoreClock,
    source: Source,
    /// True frequency of the core.
    frequency: Frequency,
    switch: Duration,
    now: Duration,
    phase: Phase,
    planned: Option<FrequencyChange>,
    lead: Lead,
}

#[derive(Clone, Debug)]
enum Source {
    List(std::vec::IntoIter<FrequencyChange>),
    Governed(Box<Governed>),
    Told,
}

#[derive(Clone, Copy, Debug)]
enum Phase {
    Steady,
    /// The core still runs at the old frequency.
    First {
        next: Frequency,
        middle: Duration,
        end: Duration,
    },
    /// The core runs at the new frequency, and the clock is not told yet.
    Second {
        end: Duration,
    },
}

/// Lead of the shown time over the RVEC clock: readers used an old line for a moment after a
/// change, and no reader may see a step back. It shrinks by a sixteenth of each nanosecond.
#[derive(Clone, Copy, Debug)]
struct Lead {
    ahead: Age,
    since: Age,
}

impl DrivenClock {
    /// Returns the clock at the zero of its crystal's time. `seed` is a governor's.
    pub fn new(options: &CycleOptions, seed: u64) -> Self {
        let (first, source) = match &options.source {
            FrequencySource::Trace(trace) => {
                let mut changes = trace.changes().to_vec().into_iter();
                let first = changes.next().map(|change| change.to);
                (
                    first.unwrap_or(Frequency::from_mhz(800)),
                    Source::List(changes),
                )
            }
            FrequencySource::Governor(governor) => {
                let governed = Governed::new(governor.clone(), seed);
                (governed.current(), Source::Governed(Box::new(governed)))
            }
            FrequencySource::Told(first) => (*first, Source::Told),
        };
        // Wider than the paper's counter, which an operating system must read every two seconds;
        // here the counter is not read while nothing changes.
        let core = SimulatedCore::with_width(0, 64);
        let mut made = Self {
            clock: CoreClock::new(&core, first),
            core,
            source,
            frequency: first,
            switch: options.switch,
            now: Duration::ZERO,
            phase: Phase::Steady,
            planned: None,
            lead: Lead {
                ahead: Age::ZERO,
                since: Age::ZERO,
            },
        };
        made.plan();
        made
    }

    /// Returns the time of the next change of the line by itself, if any.
    pub fn next_change(&mut self) -> Option<Duration> {
        let change = match self.phase {
            Phase::Steady => self.planned.map(|change| change.at.max(self.now)),
            Phase::First { middle, .. } => Some(middle),
            Phase::Second { end } => Some(end),
        };
        change.into_iter().chain(self.lead_end()).min()
    }

    /// Advances the clock to `now`, with all changes on the way.
    pub fn advance(&mut self, now: Duration) {
        while let Some(at) = self.next_change().filter(|at| *at <= now) {
            self.pass(at);
            self.change();
        }
        self.pass(now);
    }

    /// Returns the time shown at the instant of the last advance, since the start.
    pub fn shown(&mut self) -> Duration {
        let age = self.age();
        (age + self.lead_at(age)).as_duration()
    }

    /// Returns the rate from there on, against the crystal: 1, except during a change and while a
    /// lead is removed.
    pub fn rate(&mut self) -> Rate {
        let rate = self.counting_rate();
        let age = self.age();
        if self.lead_at(age) == Age::ZERO {
            rate
        } else {
            Rate::from_bits(rate.to_bits() / GIVEN_BACK * (GIVEN_BACK - 1))
        }
    }

    /// Returns the maximum lag behind the crystal's time, rounded up: the time that changes may
    /// have hidden. The clock is never ahead.
    pub fn missing(&mut self) -> Duration {
        self.clock.read(&self.core).missing
    }

    /// Changes the core to `next`; if a change is under way, this one follows it.
    pub fn handle_frequency(&mut self, next: Frequency) {
        self.planned = Some(FrequencyChange {
            at: self.now,
            to: next,
        });
        while self.next_change() == Some(self.now) {
            self.change();
        }
    }

    /// Records that readers saw the clock this much ahead of its value.
    pub fn absorb(&mut self, ahead: Duration) {
        let age = self.age();
        self.lead = Lead {
            ahead: self.lead_at(age) + Age::from_duration(ahead),
            since: age,
        };
    }

    fn pass(&mut self, to: Duration) {
        if to > self.now {
            let length_ns = (to - self.now).as_ns() as u128;
            // In pieces that fit into 64 bits of picoseconds.
            let mut left_ns = length_ns;
            while left_ns > 0 {
                let piece_ns = left_ns.min(1 << 50);
                self.core
                    .advance(piece_ns as u64 * 1_000, Some(self.frequency));
                left_ns -= piece_ns;
            }
            self.now = to;
        }
    }

    /// Carries out the changes that are due.
    fn change(&mut self) {
        match self.phase {
            Phase::Steady => {
                if let Some(change) = self.planned.filter(|change| change.at <= self.now) {
                    self.planned = None;
                    self.begin(change.to);
                    self.plan();
                }
            }
            Phase::First { next, middle, end } if middle <= self.now => {
                self.frequency = next;
                self.phase = Phase::Second { end };
            }
            Phase::Second { end } if end <= self.now => {
                self.clock.handle_change_end(&self.core);
                self.phase = Phase::Steady;
            }
            Phase::First { .. } | Phase::Second { .. } => {}
        }
        let age = self.age();
        if self.lead_at(age) == Age::ZERO {
            self.lead.ahead = Age::ZERO;
        }
    }

    fn begin(&mut self, next: Frequency) {
        if next == self.frequency {
            return;
        }
        self.clock.handle_change_begin(&self.core, next);
        if self.switch <= Duration::ZERO {
            self.clock.handle_change_end(&self.core);
            self.frequency = next;
            return;
        }
        let half = Duration::from_ns(self.switch.as_ns() / 2);
        self.phase = Phase::First {
            next,
            middle: self.now + half,
            end: self.now + self.switch,
        };
    }

    fn plan(&mut self) {
        self.planned = match &mut self.source {
            Source::List(changes) => changes.next(),
            Source::Governed(governed) => Some(governed.next()),
            Source::Told => self.planned,
        };
    }

    fn age(&mut self) -> Age {
        self.clock.read(&self.core).age
    }

    /// Returns the nanoseconds that the clock counts per nanosecond of its crystal.
    fn counting_rate(&self) -> Rate {
        let hz = u128::from(self.frequency.as_hz());
        Rate::from_bits(self.clock.period().to_bits() * hz / 1_000_000_000)
    }

    fn lead_at(&self, age: Age) -> Age {
        self.lead.ahead - (age - self.lead.since).part(GIVEN_BACK)
    }

    /// Returns the time at which no lead is left.
    fn lead_end(&mut self) -> Option<Duration> {
        if self.lead.ahead == Age::ZERO {
            return None;
        }
        let age = self.age();
        let left = self.lead_at(age).as_duration_up().as_ns() as f64;
        let rate = self.counting_rate().as_f64().max(1e-9);
        let length_ns = (left * GIVEN_BACK as f64 / rate).ceil().min(9e18) as i64;
        Some(self.now + Duration::from_ns(length_ns.max(1)))
    }
}

/// A sixteenth, 6 %: faster than leads accumulate, and far from stopping the clock.
const GIVEN_BACK: u128 = 16;

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn of(text: &str, switch: Duration) -> DrivenClock {
        let source = FrequencySource::Trace(text.parse().expect("a list"));
        DrivenClock::new(&CycleOptions { source, switch }, 0)
    }

    #[test]
    fn a_change_costs_what_half_of_it_ran_too_slowly_and_the_clock_says_so() {
        let us = Duration::from_us;
        let mut clock = of("0 s 800 MHz\n1 ms 400 MHz", us(50));
        let mut seen = Vec::new();
        while let Some(at) = clock.next_change() {
            clock.advance(at);
            seen.push((at, (clock.rate().as_f64() * 1e6).round() / 1e6));
        }
        // Until the middle of the switch each cycle lasts as long as it is counted.
        assert_eq!(seen, [(us(1_000), 1.0), (us(1_025), 0.5), (us(1_050), 1.0)]);
        clock.advance(us(2_000));
        let behind = us(2_000) - clock.shown();
        assert!(
            (behind - Duration::from_ns(12_500)).as_ns().abs() <= 2,
            "{behind}"
        );
        // The clock can only know that none of the switch's cycles was a short one.
        assert!(
            clock.missing() >= behind && clock.missing() <= us(38),
            "{}",
            clock.missing()
        );
    }

    #[test]
    fn what_readers_saw_too_much_of_is_given_back_and_never_at_once() {
        let us = Duration::from_us;
        let mut clock = of("0 s 800 MHz\n1 ms 400 MHz", us(50));
        clock.advance(us(1_100));
        let (before, missing) = (clock.shown(), clock.missing());
        clock.absorb(Duration::from_ns(12_500));
        assert_eq!(clock.shown(), before + Duration::from_ns(12_500));
        assert!((clock.rate().as_f64() - 15.0 / 16.0).abs() < 1e-9);
        let end = clock.next_change().expect("it is given back");
        assert!(
            (end - us(1_300)).as_ns().abs() <= 40,
            "12.5 us * 16 later: {end}"
        );
        clock.advance(end);
        assert_eq!(clock.next_change(), None);
        clock.advance(us(2_000));
        assert_eq!(clock.missing(), missing);
        let behind = us(2_000) - clock.shown();
        assert!(
            (behind - Duration::from_ns(12_500)).as_ns().abs() <= 4,
            "{behind}"
        );
    }

    proptest! {
        /// Holds for every sequence of changes, at every instant.
        #[test]
        fn it_increases_and_is_behind_by_no_more_than_it_says(
            seed in any::<u64>(), load in 0.0f64..1.0, switch_us in 0i64..500,
            steps in prop::collection::vec((1i64..20_000_000, 0i64..30_000), 1..200),
        ) {
            let governor = Governor {
                policy: super::super::Policy::Ondemand,
                frequencies: [300, 800, 1_500].map(Frequency::from_mhz).to_vec(),
                load,
                burst: Duration::from_ms(50),
                sampling: Duration::from_ms(5),
            };
            let options = CycleOptions {
                source: FrequencySource::Governor(governor),
                switch: Duration::from_us(switch_us),
            };
            let mut clock = DrivenClock::new(&options, seed);
            let (mut now, mut last) = (Duration::ZERO, Duration::from_ns(-1));
            for (length_ns, ahead_ns) in steps {
                now += Duration::from_ns(length_ns);
                clock.advance(now);
                let shown = clock.shown();
                prop_assert!(shown > last, "{} after {}", shown, last);
                prop_assert!(shown <= now, "{} at {}", shown, now);
                // The last cycle may not be counted yet.
                let most = shown + clock.missing() + Duration::from_ns(5);
                prop_assert!(now <= most, "{} at {}, {}", shown, now, clock.missing());
                last = shown;
                // Readers saw a late line, which runs no faster than the crystal.
                let ahead = Duration::from_ns(ahead_ns).min(now - shown);
                clock.absorb(ahead);
                last = last.max(clock.shown() - Duration::from_ns(1));
            }
        }
    }
}
