//! The clock of one core.

use timeloom_time::{Duration, Rate};

use super::{Age, CycleCounter, Frequency, Rvec, Widener};

/// One core's RVEC with what it takes to keep it right: the extension of the
/// counter, the frequency in force, and the two moments of a frequency change
/// (`rvec_cpu_freq_change_pre` and `_pos` in the paper's Figure 7).
#[derive(Clone, Debug)]
pub struct CoreClock {
    rvec: Rvec,
    widener: Widener,
    period: Rate,
    switching: Option<Switch>,
    missing: Age,
}

/// A frequency change under way.
#[derive(Clone, Copy, Debug)]
struct Switch {
    /// The longest that a cycle may take until the change is done.
    slowest: Rate,
    next: Rate,
    since_count: u64,
}

/// A core's time with what is not known about it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct CoreTime {
    /// Time counted since the clock was made. True elapsed time is not less,
    /// as far as the frequencies told are true.
    pub age: Age,
    /// True elapsed time is at most `age` plus this (rounded up): what may have
    /// been lost while frequencies changed and while the core idled.
    pub missing: Duration,
}

impl CoreClock {
    /// A clock of age zero on `counter`, which runs at `frequency`.
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

    /// How long a cycle counts, at present.
    pub(super) fn period(&self) -> Rate {
        self.period
    }

    /// The core's time. Also what keeps the extension of the counter going:
    /// call it at least twice per wrap.
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

    /// The core is about to change from the frequency in force to `next`.
    ///
    /// Until [`Self::handle_change_end`] each cycle may last as long as either
    /// frequency says. It is counted with the *shorter* period: then what is
    /// read during the switch and what is settled after it agree, the clock
    /// never has to step back, and the error is one-sided and stated.
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

    /// The core runs at its new frequency. Without a change under way, nothing.
    pub fn handle_change_end(&mut self, counter: &impl CycleCounter) {
        let Some(switch) = self.switching.take() else {
            return;
        };
        let count = self.widener.extend(counter.cycles());
        self.missing = self.missing + switch.missing(count, self.period);
        self.rvec.consolidate(count, self.period);
        self.period = switch.next;
    }

    /// The core wakes after its counter stood still for `slept`, as told by a
    /// timer that does not stop and that is known to `resolution`. (The paper's
    /// platform keeps counting; most counters of core cycles halt with the core.)
    pub fn handle_wake(&mut self, slept: Duration, resolution: Duration) {
        let certain = Age::from_duration(slept - resolution);
        self.rvec.add_uncounted(certain);
        self.missing = self.missing + (Age::from_duration(slept + resolution) - certain);
    }
}

impl Switch {
    /// The most that counting with `period` has lost since the switch began.
    fn missing(&self, count: u64, period: Rate) -> Age {
        let cycles = count.saturating_sub(self.since_count);
        Age::of_cycles(cycles, self.slowest) - Age::of_cycles(cycles, period)
    }
}
