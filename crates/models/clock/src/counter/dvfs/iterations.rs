//! The paper's loops: a program's clock readings after each iteration.

use timeloom_time::Duration;
use timeloom_time::convert::{low_u32, saturating_u64};

use crate::counter::{Age, CoreClock, CycleCounter, Frequency, SimulatedCore, TaskClock};
use timeloom_random::Random;

/// Clock readings after an iteration of the loop.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IterationReading {
    /// Number of iterations done.
    pub turn: u32,
    /// Raw counter since the first iteration, converted to time as programs do: the 32 bits of
    /// cycles times the period of the first frequency.
    pub raw: Duration,
    /// Reading of the task's RVEC clock.
    pub rvec: Age,
}

/// Parameters of a loop on one core.
#[derive(Clone, Copy, Debug)]
pub struct Loop {
    /// Number of iterations.
    pub turns: u32,
    /// Mean length of an iteration at the first frequency.
    pub turn: Duration,
    /// Frequency at the beginning.
    pub first: Frequency,
    /// Iteration at which the frequency changes, and the new frequency; `None` for no change.
    pub change: Option<(u32, Frequency)>,
    /// Number of iterations after the change during which another task runs on the same core and
    /// executes as many cycles as the loop. The raw counter counts those cycles too.
    pub interference: u32,
}

/// Loop of Figures 8 and 10: 400 iterations, 361.91 ms in all, at 800 MHz.
pub const SHORT: Loop = Loop {
    turns: 400,
    turn: Duration::from_ns(904_775),
    first: Frequency::from_mhz(800),
    change: None,
    interference: 0,
};

/// Loop of Figure 9: iterations of 255.372 ms, so that 32 bits overflow after every 21st.
pub const OVERFLOW: Loop = Loop {
    turns: 100,
    turn: Duration::from_us(255_372),
    ..SHORT
};

/// Loop of Figure 12: 5000 iterations. At iteration 2500 another task halves the frequency, and
/// then runs beside the loop for 150 iterations.
pub const CHANGED_BY_ANOTHER: Loop = Loop {
    turns: 5_000,
    turn: Duration::from_ns(500),
    first: Frequency::from_mhz(800),
    change: Some((2_500, Frequency::from_mhz(400))),
    interference: 150,
};

/// Loop of Figure 13: as Figure 12, but the loop itself changes the frequency.
pub const CHANGED_BY_ITSELF: Loop = Loop {
    interference: 0,
    ..CHANGED_BY_ANOTHER
};

impl Loop {
    /// Runs the loop. An iteration takes the same number of cycles at every frequency, ± 5 %.
    pub fn run(&self, seed: u64) -> Vec<IterationReading> {
        let mut noise = Random::new(seed, 0);
        let mut core = SimulatedCore::new(low_u32(noise.bits()));
        let mut clock = CoreClock::new(&core, self.first);
        let mut task = TaskClock::new();
        task.handle_dispatch(clock.read(&core).age);
        let (start, mut frequency) = (low_u32(core.cycles()), self.first);
        let mean = self.turn.as_ns() as f64 * self.first.as_hz() as f64 / 1e9;
        let mut turns = Vec::with_capacity(self.turns as usize + 1);
        for turn in 0..=self.turns {
            let age = clock.read(&core).age;
            let cycles = low_u32(core.cycles()).wrapping_sub(start);
            turns.push(IterationReading {
                turn,
                raw: Age::of_cycles(u64::from(cycles), self.first.period()).as_duration(),
                rvec: task.read(age),
            });
            let mut others = false;
            if let Some((at, next)) = self.change {
                if turn == at {
                    clock.handle_change_begin(&core, next);
                    clock.handle_change_end(&core);
                    frequency = next;
                }
                others = (at..at + self.interference).contains(&turn);
            }
            let cycles = mean * (1.0 + 0.05 * noise.normal().clamp(-3.0, 3.0));
            let length_ps = saturating_u64(cycles * 1e12 / frequency.as_hz() as f64);
            core.advance(length_ps, Some(frequency));
            if others {
                // The counter also counts cycles of the other task; this task's clock does not.
                task.handle_preempt(clock.read(&core).age);
                core.advance(length_ps, Some(frequency));
                task.handle_dispatch(clock.read(&core).age);
            }
        }
        turns
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the mean increase of `value` per iteration over the iterations `from..to`, in ns.
    fn slope(
        turns: &[IterationReading],
        from: usize,
        to: usize,
        value: impl Fn(&IterationReading) -> Duration,
    ) -> f64 {
        (value(&turns[to]) - value(&turns[from])).as_ns() as f64 / (to - from) as f64
    }

    fn raw(turn: &IterationReading) -> Duration {
        turn.raw
    }

    fn rvec(turn: &IterationReading) -> Duration {
        turn.rvec.as_duration()
    }

    #[test]
    fn the_counter_has_three_stages_and_rvec_two() {
        let turns = CHANGED_BY_ANOTHER.run(3);
        for (from, to, raw_ns, rvec_ns) in [
            (0, 2_500, 500.0, 500.0),
            (2_500, 2_650, 1_000.0, 1_000.0),
            (2_650, 5_000, 500.0, 1_000.0),
        ] {
            let slopes = (slope(&turns, from, to, raw), slope(&turns, from, to, rvec));
            assert!(
                (slopes.0 / raw_ns - 1.0).abs() < 0.02,
                "{from} … {to}: {slopes:?}"
            );
            assert!(
                (slopes.1 / rvec_ns - 1.0).abs() < 0.02,
                "{from} … {to}: {slopes:?}"
            );
        }
        let alone = CHANGED_BY_ITSELF.run(3);
        assert!((slope(&alone, 2_500, 2_650, raw) / 500.0 - 1.0).abs() < 0.02);
    }

    #[test]
    fn the_counter_overflows_after_every_21st_turn_and_rvec_increases_always() {
        let turns = OVERFLOW.run(3);
        let overflows = turns.windows(2).filter(|pair| pair[1].raw < pair[0].raw);
        assert_eq!(overflows.count(), 4, "25.5 s in wraps of 5.369 s");
        for run in [SHORT, OVERFLOW, CHANGED_BY_ANOTHER, CHANGED_BY_ITSELF] {
            let turns = run.run(5);
            assert!(
                turns.windows(2).all(|pair| pair[0].rvec < pair[1].rvec),
                "{run:?}"
            );
        }
    }
}
