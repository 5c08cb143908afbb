//! RVEC clock of a host whose core changes frequency, as a straight line between two changes.
//!
//! The chain is that of the paper: the core counts cycles while its oscillator measures time
//! ([`SimulatedCore`]), a driver reports frequency changes, and [`CoreClock`] converts the cycles
//! to time that never steps back. Between two changes the result is a straight line, which a clock
//! page can represent.

use timeloom_time::convert::saturating_i64;
use timeloom_time::{Duration, Rate};

use super::frequencies::{FrequencyChange, FrequencyTrace, Governed, Governor};
use super::{Age, CoreClock, Frequency, SimulatedCore};

/// Source of a core's frequency changes.
#[derive(Clone, Debug, PartialEq)]
pub enum FrequencySource {
    /// The changes of a list.
    Trace(FrequencyTrace),
    /// The decisions of a governor under a simulated load.
    Governor(Governor),
    /// Changes that the caller reports with [`DrivenClock::handle_frequency`]; the value is the
    /// initial frequency.
    Told(Frequency),
}

/// Core whose cycles the kernel of a host counts.
#[derive(Clone, Debug, PartialEq)]
pub struct CycleOptions {
    /// Source of the frequency changes.
    pub source: FrequencySource,
    /// Duration of a change. The core runs at the old frequency for the first half and at the new
    /// one for the second half; the clock is told the begin and the end, but not the middle.
    pub switch: Duration,
}

/// RVEC clock driven by an oscillator. All instants are lengths of oscillator time since the start.
#[derive(Clone, Debug)]
pub struct DrivenClock {
    core: SimulatedCore,
    clock: CoreClock,
    source: Source,
    /// Actual frequency of the core, which may differ from the frequency that the clock assumes.
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
    /// First half of a change: the core still runs at the old frequency.
    First {
        next: Frequency,
        middle: Duration,
        end: Duration,
    },
    /// Second half of a change: the core runs at the new frequency, and the clock has not been told
    /// that the change is complete.
    Second {
        end: Duration,
    },
}

/// Lead of the displayed time over the RVEC clock. It arises if readers use an old line for a
/// moment after a change, because no reader may see the clock step back. The lead decreases by 1/16
/// ns per nanosecond.
#[derive(Clone, Copy, Debug)]
struct Lead {
    ahead: Age,
    since: Age,
}

impl DrivenClock {
    /// Returns the clock at oscillator time zero. `seed` determines the load of a governor.
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
        // The paper's counter has 32 bits, and an operating system must read it every two seconds.
        // This one is wider, because the model does not read it while nothing changes.
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

    /// Returns the oscillator time at which the line next changes without a call; `None` for never.
    pub fn next_change(&mut self) -> Option<Duration> {
        let change = match self.phase {
            Phase::Steady => self.planned.map(|change| change.at.max(self.now)),
            Phase::First { middle, .. } => Some(middle),
            Phase::Second { end } => Some(end),
        };
        change.into_iter().chain(self.lead_end()).min()
    }

    /// Advances the clock to oscillator time `now`, and carries out all changes until then.
    pub fn advance(&mut self, now: Duration) {
        while let Some(at) = self.next_change().filter(|at| *at <= now) {
            self.pass(at);
            self.change();
        }
        self.pass(now);
    }

    /// Returns the displayed time since the start, as of the last advance.
    pub fn shown(&mut self) -> Duration {
        let age = self.age();
        (age + self.lead_at(age)).as_duration()
    }

    /// Returns the rate of displayed time per oscillator time from the last advance on. It is 1,
    /// except during a change and while a lead is removed.
    pub fn rate(&mut self) -> Rate {
        let rate = self.counting_rate();
        let age = self.age();
        if self.lead_at(age) == Age::ZERO {
            rate
        } else {
            Rate::from_bits(rate.to_bits() / GIVEN_BACK * (GIVEN_BACK - 1))
        }
    }

    /// Returns the greatest possible lag behind oscillator time, rounded up: the time that
    /// frequency changes may have hidden. The clock is never ahead of oscillator time.
    pub fn missing(&mut self) -> Duration {
        self.clock.read(&self.core).missing
    }

    /// Changes the core's frequency to `next`, now or after the change that is under way.
    pub fn handle_frequency(&mut self, next: Frequency) {
        self.planned = Some(FrequencyChange {
            at: self.now,
            to: next,
        });
        while self.next_change() == Some(self.now) {
            self.change();
        }
    }

    /// Records that readers saw the clock ahead of its value by `ahead`.
    pub fn absorb(&mut self, ahead: Duration) {
        let age = self.age();
        self.lead = Lead {
            ahead: self.lead_at(age) + Age::from_duration(ahead),
            since: age,
        };
    }

    fn pass(&mut self, to: Duration) {
        if to > self.now {
            // Advance in pieces that fit into 64 bits of picoseconds.
            let mut left_ns = (to - self.now).as_unsigned_ns();
            while left_ns > 0 {
                let piece_ns = left_ns.min(1 << 50);
                self.core.advance(piece_ns * 1_000, Some(self.frequency));
                left_ns -= piece_ns;
            }
            self.now = to;
        }
    }

    /// Carries out the changes that are due at the present instant.
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

    /// Returns the nanoseconds that the RVEC clock counts per nanosecond of oscillator time.
    fn counting_rate(&self) -> Rate {
        let hz = u128::from(self.frequency.as_hz());
        Rate::from_bits(self.clock.period().to_bits() * hz / 1_000_000_000)
    }

    fn lead_at(&self, age: Age) -> Age {
        self.lead.ahead - (age - self.lead.since).part(GIVEN_BACK)
    }

    /// Returns the oscillator time at which no lead is left; `None` without a lead.
    fn lead_end(&mut self) -> Option<Duration> {
        if self.lead.ahead == Age::ZERO {
            return None;
        }
        let age = self.age();
        let left = self.lead_at(age).as_duration_up().as_ns() as f64;
        let rate = self.counting_rate().as_f64().max(1e-9);
        let length_ns = saturating_i64((left * GIVEN_BACK as f64 / rate).ceil().min(9e18));
        Some(self.now + Duration::from_ns(length_ns.max(1)))
    }
}

/// Fraction of the rate (1/16, 6 %) by which the clock slows down to remove a lead. Leads are
/// removed faster than they accumulate, and the clock does not come close to stopping.
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
    fn the_time_lost_in_half_of_a_change_is_reported() {
        let us = Duration::from_us;
        let mut clock = of("0 s 800 MHz\n1 ms 400 MHz", us(50));
        let mut seen = Vec::new();
        while let Some(at) = clock.next_change() {
            clock.advance(at);
            seen.push((at, (clock.rate().as_f64() * 1e6).round() / 1e6));
        }
        // Until the middle of the change, each cycle lasts as long as the clock assumes.
        assert_eq!(seen, [(us(1_000), 1.0), (us(1_025), 0.5), (us(1_050), 1.0)]);
        clock.advance(us(2_000));
        let behind = us(2_000) - clock.shown();
        assert!(
            (behind - Duration::from_ns(12_500)).as_ns().abs() <= 2,
            "{behind}"
        );
        // The clock knows only that none of the change's cycles may have been a short one.
        assert!(
            clock.missing() >= behind && clock.missing() <= us(38),
            "{}",
            clock.missing()
        );
    }

    #[test]
    fn an_excess_seen_by_readers_is_given_back_gradually() {
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
        fn a_driven_clock_increases_and_lags_within_the_reported_bound(
            seed in any::<u64>(), load in 0.0f64..1.0, switch_us in 0i64..500,
            steps in prop::collection::vec((1i64..20_000_000, 0i64..30_000), 1..200),
        ) {
            let governor = Governor {
                policy: super::super::GovernorPolicy::Ondemand,
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
                // The cycle in progress may not be counted yet.
                let most = shown + clock.missing() + Duration::from_ns(5);
                prop_assert!(now <= most, "{} at {}, {}", shown, now, clock.missing());
                last = shown;
                // Readers used an old line, which runs no faster than the oscillator.
                let ahead = Duration::from_ns(ahead_ns).min(now - shown);
                clock.absorb(ahead);
                last = last.max(clock.shown() - Duration::from_ns(1));
            }
        }
    }
}
