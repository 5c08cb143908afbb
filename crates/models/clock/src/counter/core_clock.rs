//! Clock of one core.

use timeloom_time::{Duration, Rate};

use super::{Age, CycleCounter, Frequency, Rvec, Widener};

/// A core's RVEC with the state that it depends on: the extension of the counter, the frequency
/// in force, and the two moments of a frequency change (`rvec_cpu_freq_change_pre` and `_pos` in
/// the paper's Figure 7).
#[derive(Clone, Debug)]
pub struct CoreClock {
    rvec: Rvec,
    widener: Widener,
    period: Rate,
    switching: Option<Switch>,
    missing: Age,
}

/// Frequency change under way.
#[derive(Clone, Copy, Debug)]
struct Switch {
    /// Longest possible duration of a cycle until the change is done.
    slowest: Rate,
    next: Rate,
    since_count: u64,
}

/// A core's time with its uncertainty.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct CoreTime {
    /// Time counted since the clock was created. True elapsed time is not less, if the reported
    /// frequencies are correct.
    pub age: Age,
    /// Upper bound of true elapsed time minus `age` (rounded up): time that may have been lost in
    /// frequency changes and while the core was idle.
    pub missing: Duration,
}

impl CoreClock {
    /// Returns a clock of age zero on `counter`, which runs at `frequency`.
    pub fn new(counter: &impl CycleCounter, frequency: Frequency) -> Self {
        let widener = Widener::new(counter.cycles(), counter.width_bits());
        Self {
            rvec: Rvec::new(widener.peek(counter.cycles())),
            widener,
            period: frequency.period(),
            switching: None,
            missing: Age::ZERO,
        }
    }

    /// Returns the time that a cycle currently counts for.
    pub(super) fn period(&self) -> Rate {
        self.period
    }

    /// Returns the core's time. Also maintains the extension of the counter: call it at least twice
    /// per wrap.
    pub fn read(&mut self, counter: &impl CycleCounter) -> CoreTime {
        let count = self.widener.extend(counter.cycles());
        let missing = match self.switching {
            Some(switch) => self.missing + switch.missing(count, self.period),
            None => self.missing,
        };
        CoreTime {
            age: self.rvec.read(count, self.period),
            missing: missing.as_duration_up(),
        }
    }

    /// Begins a change from the frequency in force to `next`.
    ///
    /// Until [`Self::handle_change_end`] a cycle may have the period of either frequency. It is
    /// counted with the *shorter* period: readings during the switch and after it then agree, the
    /// clock never has to step back, and the error is one-sided and stated.
    pub fn handle_change_begin(&mut self, counter: &impl CycleCounter, next: Frequency) {
        self.handle_change_end(counter);
        let count = self.widener.extend(counter.cycles());
        self.rvec.consolidate(count, self.period);
        let next = next.period();
        let slowest = self.period.max(next);
        self.period = self.period.min(next);
        self.switching = Some(Switch {
            slowest,
            next,
            since_count: count,
        });
    }

    /// Ends the change: the core runs at its new frequency. Does nothing without a change under
    /// way.
    pub fn handle_change_end(&mut self, counter: &impl CycleCounter) {
        let Some(switch) = self.switching.take() else {
            return;
        };
        let count = self.widener.extend(counter.cycles());
        self.missing = self.missing + switch.missing(count, self.period);
        self.rvec.consolidate(count, self.period);
        self.period = switch.next;
    }

    /// Adds the time `slept` during which the counter was stopped, measured by a timer that does
    /// not stop and has this `resolution`. (The paper's platform keeps counting; most counters of
    /// core cycles halt with the core.)
    pub fn handle_wake(&mut self, slept: Duration, resolution: Duration) {
        let certain = Age::from_duration(slept - resolution);
        self.rvec.add_uncounted(certain);
        self.missing = self.missing + (Age::from_duration(slept + resolution) - certain);
    }
}

impl Switch {
    /// Returns the maximum loss from counting with `period` since the switch began.
    fn missing(&self, count: u64, period: Rate) -> Age {
        let cycles = count.saturating_sub(self.since_count);
        Age::of_cycles(cycles, self.slowest) - Age::of_cycles(cycles, period)
    }
}
