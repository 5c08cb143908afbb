//! Clock of one processor core.

use timeloom_time::{Duration, Rate};

use super::{Age, CycleCounter, Frequency, Rvec, Widener};

/// RVEC clock of a core, with the state that it needs: the extension of the counter, the frequency
/// in force, and the begin and end of a frequency change (`rvec_cpu_freq_change_pre` and `_pos` in
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
    /// Longest possible duration of a cycle until the change is complete, in ns.
    slowest: Rate,
    next: Rate,
    since_count: u64,
}

/// Reading of a core's clock, with its uncertainty.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct CoreTime {
    /// Time counted since the clock was created. True elapsed time is not less, provided that the
    /// reported frequencies are correct.
    pub age: Age,
    /// Upper bound of true elapsed time minus `age` (rounded up): the time that may not have been
    /// counted during frequency changes and while the core was idle.
    pub missing: Duration,
}

impl CoreClock {
    /// Returns a clock with age zero on `counter`, whose core runs at `frequency`.
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

    /// Returns the time for which a cycle currently counts, in ns.
    pub(super) fn period(&self) -> Rate {
        self.period
    }

    /// Returns the core's time. The call also tracks wraps of the counter, so it must be made at
    /// least twice per wrap.
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
    /// Until [`Self::handle_change_end`], a cycle may have the period of either frequency. The
    /// clock counts each cycle with the *shorter* period. Readings during the change and after it
    /// then agree, the clock never has to step back, and the error has one sign and a known bound.
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

    /// Ends the change: the core now runs at its new frequency. Has no effect if no change is under
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

    /// Adds the time `slept` during which the counter was stopped. `slept` was measured by a timer
    /// that does not stop; `resolution` is that timer's resolution. (The counter of the paper's
    /// platform does not stop, but most counters of core cycles stop with the core.)
    pub fn handle_wake(&mut self, slept: Duration, resolution: Duration) {
        let certain = Age::from_duration(slept - resolution);
        self.rvec.add_uncounted(certain);
        self.missing = self.missing + (Age::from_duration(slept + resolution) - certain);
    }
}

impl Switch {
    /// Returns the greatest possible loss since the change began, if each cycle since then was
    /// counted with `period`.
    fn missing(&self, count: u64, period: Rate) -> Age {
        let cycles = count.saturating_sub(self.since_count);
        Age::of_cycles(cycles, self.slowest) - Age::of_cycles(cycles, period)
    }
}
