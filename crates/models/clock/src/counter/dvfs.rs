//! The RVEC paper's experiments on a simulated core.
//!
//! The experiments on *clock readings* (Figures 8–13) need no board. The cost of a read and its
//! precision (Tables 3–5) are *measured* as in the paper: a block of work with one read in it, or
//! between two reads, runs many times on the simulated counter, and the clock readings are
//! averaged. A simulated core cannot know how many cycles a read costs. Each table is therefore
//! simulated with the cycles of *another* table ([`AT_400_MHZ`], [`AT_800_MHZ`]) and compared with
//! its own figures: a read costs a number of cycles, not a length of time.

pub mod iterations;

use timeloom_time::Duration;
use timeloom_time::convert::{low_u32, saturating_u64};

use super::{CoreClock, CycleCounter, Frequency, ReplaySample, SimulatedCore, Trace, replay};
use timeloom_random::Random;

/// Clocks that the paper's tables compare.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BoardClock {
    /// The raw counter: 32 bits of cycles.
    Ccnt,
    /// The RVEC clock over the raw counter.
    Rvec,
    /// CLOCK_MONOTONIC over the board's 1 MHz timer (STC).
    Monotonic,
    /// CLOCK_REALTIME over the board's 1 MHz timer (STC).
    Realtime,
}

impl BoardClock {
    /// All clocks, in the order of the tables.
    pub const ALL: [Self; 4] = [Self::Ccnt, Self::Rvec, Self::Monotonic, Self::Realtime];

    /// Returns the clock's name as printed in the tables.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Ccnt => "CCNT",
            Self::Rvec => "RVEC",
            Self::Monotonic => "MONOTONIC",
            Self::Realtime => "REALTIME",
        }
    }
}

/// Cost of work on the paper's board in cycles, derived from one of the paper's tables.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Work {
    /// Cycles of the block of instructions, without a read of a clock in it.
    pub block: u64,
    /// Cycles of one read of each clock, in the order of [`BoardClock::ALL`].
    pub reads: [u64; 4],
}

/// Table 4 in cycles: its times (the block's 341.679 µs, and the overheads) multiplied by 400 MHz.
pub const AT_400_MHZ: Work = Work {
    block: 136_672,
    reads: [1_081, 3_201, 2_075, 2_050],
};

/// Table 3 in cycles: its times (the block's 170.354 µs, and the overheads) multiplied by 800 MHz.
pub const AT_800_MHZ: Work = Work {
    block: 136_283,
    reads: [1_066, 3_318, 2_202, 2_127],
};

/// Relative standard deviation of the same work from run to run. It is that of another loop on the
/// paper's board (section 4.2.1: 18.33 of 361.91).
const VARIATION: f64 = 0.0506;

/// Row of Tables 3 and 4: cost of the block with one read of a clock in it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct CostRow {
    /// Name of the clock.
    pub clock: &'static str,
    /// Mean time of block and read, in microseconds.
    pub mean_us: f64,
    /// Standard deviation of the time of block and read, in microseconds.
    pub deviation_us: f64,
    /// Mean time of block and read minus the mean time of the block alone, in microseconds.
    pub overhead_us: f64,
    /// The same difference, in percent of the time of the block alone.
    pub overhead_percent: f64,
}

/// Row of Table 5: duration of the block as measured by a clock.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct PrecisionRow {
    /// Name of the clock.
    pub clock: &'static str,
    /// Mean of the measured durations, in microseconds.
    pub mean_us: f64,
    /// Standard deviation of the measured durations, in microseconds.
    pub deviation_us: f64,
    /// Mean absolute error of the measured durations, in nanoseconds. The paper could not measure
    /// it; here true time is known.
    pub error_ns: f64,
}

/// Simulates Figures 9 and 11: a hundred intervals of 1.108 s at 800 MHz. The raw counter wraps
/// every 5.4 s; RVEC does not wrap.
pub fn wrap() -> Vec<ReplaySample> {
    let trace = run(&vec!["1.108 s 800 MHz"; 100].join("\n"));
    replay(&trace, Duration::from_ms(1_108))
}

/// Simulates Figures 12 and 13: a change from 800 to 400 MHz in the middle of the work, which takes
/// 50 µs. The slope of RVEC per cycle of work doubles; that of the raw counter does not.
pub fn change() -> Vec<ReplaySample> {
    let trace = run("1 ms 800 MHz\n50 us to 400 MHz\n2 ms 400 MHz");
    replay(&trace, Duration::from_us(10))
}

fn run(text: &str) -> Trace {
    text.parse().expect("a trace that is written here")
}

/// Simulates Tables 3 and 4 as the paper measures them: the block alone, and the block with a read
/// of each clock in its middle. Each runs `runs` times at `frequency` and is timed by the raw
/// counter.
pub fn costs(frequency: Frequency, work: &Work, runs: u32, seed: u64) -> Vec<CostRow> {
    let mut board = Board::new(frequency, *work, seed);
    let mut timed = |clock: Option<BoardClock>| {
        let series: Vec<f64> = (0..runs).map(|_| board.time_block(clock)).collect();
        mean_and_deviation(&series)
    };
    let (alone_us, _) = timed(None);
    let row = |clock: BoardClock| {
        let (mean_us, deviation_us) = timed(Some(clock));
        let overhead_us = mean_us - alone_us;
        CostRow {
            clock: clock.name(),
            mean_us,
            deviation_us,
            overhead_us,
            overhead_percent: 100.0 * overhead_us / alone_us,
        }
    };
    BoardClock::ALL.map(row).to_vec()
}

/// Simulates Table 5 as the paper measures it: the block between two reads of a clock, `runs` times
/// at `frequency`. The result is the difference between the two readings, which includes a part of
/// the cost of the reads themselves.
pub fn precision(frequency: Frequency, work: &Work, runs: u32, seed: u64) -> Vec<PrecisionRow> {
    let mut board = Board::new(frequency, *work, seed);
    let row = |clock: BoardClock| {
        let (mut shown, mut off_ns) = (Vec::new(), 0.0);
        for _ in 0..runs {
            let before = board.read(clock);
            board.execute_block(0.0..1.0);
            let after = board.read(clock);
            let shown_ns = board.between_ns(clock, before, after);
            off_ns += (shown_ns - (after.truth_ps - before.truth_ps) as f64 / 1e3).abs();
            shown.push(shown_ns / 1e3);
        }
        let (mean_us, deviation_us) = mean_and_deviation(&shown);
        PrecisionRow {
            clock: clock.name(),
            mean_us,
            deviation_us,
            error_ns: off_ns / f64::from(runs),
        }
    };
    BoardClock::ALL.map(row).to_vec()
}

/// Simulated board: a core that executes cycles, with the clocks on it.
struct Board {
    core: SimulatedCore,
    rvec: CoreClock,
    frequency: Frequency,
    work: Work,
    /// True time, in picoseconds.
    truth_ps: u64,
    noise: Random,
    /// Length of the current block, divided by the mean length.
    length: f64,
}

/// Reading of a clock in the clock's own unit, with the true time of the reading.
#[derive(Clone, Copy)]
struct Look {
    shown: i64,
    truth_ps: u64,
}

impl Board {
    fn new(frequency: Frequency, work: Work, seed: u64) -> Self {
        let mut noise = Random::new(seed, 0);
        let core = SimulatedCore::new(low_u32(noise.bits()));
        Self {
            rvec: CoreClock::new(&core, frequency),
            core,
            frequency,
            work,
            truth_ps: 0,
            noise,
            length: 1.0,
        }
    }

    fn execute(&mut self, cycles: u64) {
        let length_ps = cycles * 1_000_000_000_000 / self.frequency.as_hz();
        self.core.advance(length_ps, Some(self.frequency));
        self.truth_ps += length_ps;
    }

    /// Executes a part of the block. The length of the block is drawn at random when the block
    /// begins.
    fn execute_block(&mut self, part: core::ops::Range<f64>) {
        if part.start == 0.0 {
            // The paper's scheduler reads the counter often enough that no wrap is missed.
            self.rvec.read(&self.core);
            self.length = 1.0 + VARIATION * self.noise.normal();
        }
        let cycles = self.work.block as f64 * self.length * (part.end - part.start);
        self.execute(saturating_u64(cycles));
    }

    /// Reads a clock. Half of the read's cycles are executed before the value is taken, half after.
    fn read(&mut self, clock: BoardClock) -> Look {
        let cycles = self.work.reads[clock as usize];
        self.execute(cycles / 2);
        let shown = match clock {
            BoardClock::Ccnt => self.core.cycles().cast_signed(),
            BoardClock::Rvec => self.rvec.read(&self.core).age.as_duration().as_ns(),
            BoardClock::Monotonic | BoardClock::Realtime => {
                (self.truth_ps / 1_000_000).cast_signed()
            }
        };
        let look = Look {
            shown,
            truth_ps: self.truth_ps,
        };
        self.execute(cycles - cycles / 2);
        look
    }

    /// Returns the time between two readings of `clock`, in nanoseconds.
    fn between_ns(&self, clock: BoardClock, before: Look, after: Look) -> f64 {
        match clock {
            BoardClock::Ccnt => {
                let cycles = low_u32(after.shown.cast_unsigned())
                    .wrapping_sub(low_u32(before.shown.cast_unsigned()));
                f64::from(cycles) * 1e9 / self.frequency.as_hz() as f64
            }
            BoardClock::Rvec => (after.shown - before.shown) as f64,
            BoardClock::Monotonic | BoardClock::Realtime => {
                (after.shown - before.shown) as f64 * 1e3
            }
        }
    }

    /// Returns the duration of the block in microseconds, as measured by the raw counter: with a
    /// read of `clock` in its middle, or without a read for `None`.
    fn time_block(&mut self, clock: Option<BoardClock>) -> f64 {
        let begun = self.look_at_counter();
        self.execute_block(0.0..0.5);
        if let Some(clock) = clock {
            self.read(clock);
        }
        self.execute_block(0.5..1.0);
        let ended = self.look_at_counter();
        self.between_ns(BoardClock::Ccnt, begun, ended) / 1e3
    }

    /// Returns the value of the raw counter without executing cycles for the read.
    fn look_at_counter(&self) -> Look {
        Look {
            shown: self.core.cycles().cast_signed(),
            truth_ps: self.truth_ps,
        }
    }
}

fn mean_and_deviation(values: &[f64]) -> (f64, f64) {
    let mean = values.iter().sum::<f64>() / values.len() as f64;
    let squares: f64 = values.iter().map(|value| (value - mean).powi(2)).sum();
    (mean, (squares / (values.len() as f64 - 1.0)).sqrt())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_raw_counter_wraps_and_rvec_does_not() {
        let samples = wrap();
        let backwards = samples
            .windows(2)
            .filter(|pair| pair[1].raw < pair[0].raw)
            .count();
        assert_eq!(backwards, 20, "110.8 s in wraps of 5.369 s");
        assert!(
            samples
                .windows(2)
                .all(|pair| pair[1].rvec.age > pair[0].rvec.age)
        );
        let last = samples.last().unwrap();
        assert_eq!(last.rvec.age.as_duration(), Duration::from_ms(110_800));
    }

    #[test]
    fn rvec_follows_a_change_and_reports_the_hidden_time() {
        let samples = change();
        let last = samples.last().unwrap();
        assert_eq!(last.truth, Duration::from_us(3_050));
        // For 25 µs of the change, the core ran at half the speed that the clock assumed.
        let (age, missing) = (last.rvec.age.as_duration(), last.rvec.missing);
        assert_eq!(age, Duration::from_ns(3_037_500));
        assert!(age + missing >= last.truth, "{missing}");
        // Since the change, the raw counter has lost half of the time.
        assert_eq!(
            last.raw,
            Duration::from_ns(1_000_000 + 25_000 + 12_500 + 1_000_000)
        );
    }

    #[test]
    fn costs_at_one_frequency_follow_from_those_at_the_other() {
        // Overheads in Tables 3 and 4, in microseconds.
        for (mhz, work, paper) in [
            (800, AT_400_MHZ, [1.333, 4.148, 2.753, 2.659]),
            (400, AT_800_MHZ, [2.702, 8.002, 5.188, 5.125]),
        ] {
            let rows = costs(Frequency::from_mhz(mhz), &work, 100_000, 1);
            for (row, paper_us) in rows.iter().zip(paper) {
                let ratio = row.overhead_us / paper_us;
                assert!((0.9..1.1).contains(&ratio), "{row:?} and {paper_us} us");
            }
            let over_monotonic = rows[1].overhead_us / rows[2].overhead_us;
            assert!(
                (1.4..1.65).contains(&over_monotonic),
                "the paper's 1.5: {over_monotonic}"
            );
        }
    }

    /// The block is measured only by the clock itself. A slower clock includes more of its own
    /// reads in the measurement, and a 1 MHz clock is off by its resolution.
    #[test]
    fn a_block_between_two_reads_is_longer_by_the_cost_of_a_read() {
        let rows = precision(Frequency::from_mhz(800), &AT_400_MHZ, 20_000, 1);
        let block_us = AT_400_MHZ.block as f64 / 800.0;
        for (row, cycles) in rows.iter().zip(AT_400_MHZ.reads) {
            let read_us = row.mean_us - block_us;
            assert!((read_us - cycles as f64 / 800.0).abs() < 0.3, "{row:?}");
        }
        assert!(rows[0].error_ns < 1.3 && rows[1].error_ns < 1.3, "{rows:?}");
        assert!(
            rows[2].error_ns > 100.0 && rows[3].error_ns > 100.0,
            "{rows:?}"
        );
        let variation = rows[1].deviation_us / rows[1].mean_us;
        assert!((0.045..0.055).contains(&variation), "{variation}");
    }
}
