//! Replay of a trace of core activity on a core's clocks.

use timeloom_time::Duration;

use super::{
    CoreClock, CoreTime, CycleCounter, Frequency, SimulatedCore, StageKind, Trace, TraceStage,
};

/// Readings of a core's clocks at one instant of a replay.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReplaySample {
    /// True time since the replay began.
    pub truth: Duration,
    /// Value of the counter in cycles, at the counter's width.
    pub raw_cycles: u64,
    /// Raw counter converted to time without regard to wraps and frequency changes: its cycles
    /// times the period of the *first* frequency.
    pub raw: Duration,
    /// Reading of the RVEC clock.
    pub rvec: CoreTime,
}

/// Runs a 32-bit counter and its RVEC clock through `trace`. Takes a sample at the beginning, every
/// `every` of true time, and at the end of each stage.
///
/// As on real hardware, a driver informs the clock of frequency changes. When an idle core wakes
/// up, its idle time is measured by a 1 MHz timer (the paper's STC). A trace whose first stage has
/// no frequency starts at 800 MHz.
///
/// # Panics
/// Panics if `every` is not positive, or so long that a wrap could be missed.
pub fn replay(trace: &Trace, every: Duration) -> Vec<ReplaySample> {
    assert!(every > Duration::ZERO, "samples no time apart");
    let first = match trace.stages.first().map(|stage| stage.kind) {
        Some(StageKind::Run(frequency)) => frequency,
        _ => Frequency::from_mhz(800),
    };
    let hardware = SimulatedCore::new(0);
    let clock = CoreClock::new(&hardware, first);
    let mut core = Replay {
        hardware,
        clock,
        first,
        frequency: first,
        truth: Duration::ZERO,
    };
    let mut samples = vec![core.sample()];
    for stage in &trace.stages {
        core.run(stage, every, &mut samples);
    }
    samples
}

struct Replay {
    hardware: SimulatedCore,
    clock: CoreClock,
    first: Frequency,
    frequency: Frequency,
    truth: Duration,
}

impl Replay {
    fn run(&mut self, stage: &TraceStage, every: Duration, samples: &mut Vec<ReplaySample>) {
        match stage.kind {
            StageKind::Run(frequency) => {
                if frequency != self.frequency {
                    self.clock.handle_change_begin(&self.hardware, frequency);
                    self.clock.handle_change_end(&self.hardware);
                    self.frequency = frequency;
                }
                self.pass(stage.length, every, samples);
            }
            StageKind::Switch(next) => {
                self.clock.handle_change_begin(&self.hardware, next);
                let half = Duration::from_ns(stage.length.as_ns() / 2);
                self.pass(half, every, samples);
                self.frequency = next;
                self.pass(stage.length - half, every, samples);
                self.clock.handle_change_end(&self.hardware);
            }
            StageKind::Idle => {
                self.truth += stage.length;
                // The timer counts whole microseconds.
                let slept = Duration::from_us(stage.length.as_ns() / 1_000);
                self.clock.handle_wake(slept, Duration::from_us(1));
                samples.push(self.sample());
            }
        }
    }

    fn pass(&mut self, length: Duration, every: Duration, samples: &mut Vec<ReplaySample>) {
        let half_a_wrap_ns = (1u128 << 31) * 1_000_000_000 / u128::from(self.frequency.as_hz());
        assert!(
            every > Duration::ZERO && u128::from(every.as_unsigned_ns()) < half_a_wrap_ns,
            "a wrap could be missed"
        );
        let mut left = length;
        while left > Duration::ZERO {
            let step = left.min(every);
            self.hardware
                .advance(step.as_unsigned_ns() * 1_000, Some(self.frequency));
            self.truth += step;
            left -= step;
            samples.push(self.sample());
        }
    }

    fn sample(&mut self) -> ReplaySample {
        let raw_cycles = self.hardware.cycles();
        let raw = super::Age::of_cycles(raw_cycles, self.first.period()).as_duration();
        ReplaySample {
            truth: self.truth,
            raw_cycles,
            raw,
            rvec: self.clock.read(&self.hardware),
        }
    }
}
