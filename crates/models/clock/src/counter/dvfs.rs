//! The RVEC paper's experiments on a simulated core.
//!
//! What can be repeated without its board: *what the clocks show* (Figures 8–13)
//! and the precision of what they measure (Table 5). What a read costs cannot be
//! simulated; the cycles of Table 3 are taken as given ([`PAPER_800_MHZ`]), and
//! Table 4 is then a prediction, which the paper's own figures for 400 MHz test:
//! a read costs cycles, not time.

pub mod iterations;

use timeloom_time::Duration;

use super::{CoreClock, Frequency, Sample, SimulatedCore, Trace, replay};
use crate::noise::Noise;

/// A clock of the paper's tables with the cycles that a read of it takes on its
/// board: Table 3's overhead times 800 MHz.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReadCost {
    /// Its name in the tables.
    pub clock: &'static str,
    /// Cycles per read.
    pub cycles: u64,
}

/// Table 3 in cycles.
pub const PAPER_800_MHZ: [ReadCost; 4] = [
    ReadCost {
        clock: "CCNT",
        cycles: 1_066,
    },
    ReadCost {
        clock: "RVEC",
        cycles: 3_318,
    },
    ReadCost {
        clock: "MONOTONIC",
        cycles: 2_202,
    },
    ReadCost {
        clock: "REALTIME",
        cycles: 2_127,
    },
];

/// The block of instructions that the paper times, in cycles: 170.354 µs.
pub const BLOCK_CYCLES: u64 = 136_283;

/// Its standard deviation, 6.507 µs.
const BLOCK_DEVIATION_CYCLES: f64 = 5_206.0;

/// A row of Tables 3 and 4: running the block with one read of a clock in it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct CostRow {
    /// The clock.
    pub clock: &'static str,
    /// Mean time of block and read, in microseconds.
    pub mean_us: f64,
    /// Its standard deviation, in microseconds.
    pub deviation_us: f64,
    /// Beyond the block alone, in microseconds.
    pub overhead_us: f64,
    /// Beyond the block alone, in percent of the block.
    pub overhead_percent: f64,
}

/// A row of Table 5: what a clock says that the block took.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct PrecisionRow {
    /// The clock.
    pub clock: &'static str,
    /// Mean of what it measured, in microseconds.
    pub mean_us: f64,
    /// Standard deviation of that, in microseconds.
    pub deviation_us: f64,
    /// Mean of the absolute error against true time, in nanoseconds: what the
    /// paper could not know.
    pub error_ns: f64,
}

/// Figures 9 and 11: a hundred stretches of 1.108 s at 800 MHz. The raw counter
/// wraps every 5.4 s, RVEC does not.
pub fn wrap() -> Vec<Sample> {
    let trace = run(&vec!["1.108 s 800 MHz"; 100].join("\n"));
    replay(&trace, Duration::from_ms(1_108))
}

/// Figures 12 and 13: from 800 to 400 MHz in the middle of the work, with a
/// switch of 50 µs. RVEC's slope doubles per cycle of work, the raw counter's
/// does not.
pub fn change() -> Vec<Sample> {
    let trace = run("1 ms 800 MHz\n50 us to 400 MHz\n2 ms 400 MHz");
    replay(&trace, Duration::from_us(10))
}

fn run(text: &str) -> Trace {
    text.parse().expect("a trace that is written here")
}

/// Tables 3 and 4: the block with a read of each clock, at `frequency`, `runs`
/// times each.
pub fn costs(frequency: Frequency, runs: u32, seed: u64) -> Vec<CostRow> {
    let mut noise = Noise::new(seed);
    let us = |cycles: f64| cycles * 1e6 / frequency.as_hz() as f64;
    let row = |read: &ReadCost| {
        let total: Vec<f64> = (0..runs)
            .map(|_| us((block(&mut noise) + read.cycles) as f64))
            .collect();
        let (mean_us, deviation_us) = mean_and_deviation(&total);
        let alone_us = us(BLOCK_CYCLES as f64);
        let overhead_us = mean_us - alone_us;
        let overhead_percent = 100.0 * overhead_us / alone_us;
        CostRow {
            clock: read.clock,
            mean_us,
            deviation_us,
            overhead_us,
            overhead_percent,
        }
    };
    PAPER_800_MHZ.iter().map(row).collect()
}

/// Table 5: the block as measured by the raw counter, by RVEC, and by a system
/// clock of one microsecond's resolution (the board's STC), at `frequency`.
pub fn precision(frequency: Frequency, runs: u32, seed: u64) -> Vec<PrecisionRow> {
    let (mut noise, mut core) = (Noise::new(seed), SimulatedCore::new(0));
    let mut clock = CoreClock::new(&core, frequency);
    let (mut truth_ps, mut measured) = (0u64, [const { Vec::new() }; 3]);
    let mut truth = Vec::new();
    for _ in 0..runs {
        let before = (clock.read(&core).age, truth_ps);
        // Whole cycles, as the core executes them.
        let length_ps = block(&mut noise) * (1_000_000_000_000 / frequency.as_hz());
        core.advance(length_ps, Some(frequency));
        truth_ps += length_ps;
        let rvec = (clock.read(&core).age - before.0).as_duration();
        let cycles = length_ps / (1_000_000_000_000 / frequency.as_hz());
        let raw_ns = cycles as f64 * 1e9 / frequency.as_hz() as f64;
        let stc_us = truth_ps / 1_000_000 - before.1 / 1_000_000;
        truth.push(length_ps as f64 / 1e6);
        for (series, us) in
            measured
                .iter_mut()
                .zip([raw_ns / 1e3, rvec.as_ns() as f64 / 1e3, stc_us as f64])
        {
            series.push(us);
        }
    }
    let rows = ["CCNT", "RVEC", "system clock"].into_iter().zip(&measured);
    rows.map(|(clock, series)| {
        let (mean_us, deviation_us) = mean_and_deviation(series);
        let errors = series
            .iter()
            .zip(&truth)
            .map(|(us, truth_us)| (us - truth_us).abs());
        let error_ns = 1e3 * errors.sum::<f64>() / truth.len() as f64;
        PrecisionRow {
            clock,
            mean_us,
            deviation_us,
            error_ns,
        }
    })
    .collect()
}

/// Cycles that the block takes this time.
fn block(noise: &mut Noise) -> u64 {
    (BLOCK_CYCLES as f64 + noise.normal() * BLOCK_DEVIATION_CYCLES) as u64
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
    fn rvec_follows_a_change_and_says_what_the_switch_hides() {
        let samples = change();
        let last = samples.last().unwrap();
        assert_eq!(last.truth, Duration::from_us(3_050));
        // 25 µs of the switch ran at half the speed that they are counted with.
        let (age, missing) = (last.rvec.age.as_duration(), last.rvec.missing);
        assert_eq!(age, Duration::from_ns(3_037_500));
        assert!(age + missing >= last.truth, "{missing}");
        // The raw counter lost half of everything since the change.
        assert_eq!(
            last.raw,
            Duration::from_ns(1_000_000 + 25_000 + 12_500 + 1_000_000)
        );
    }

    #[test]
    fn the_cost_at_400_mhz_follows_from_that_at_800() {
        // Table 4 of the paper, overhead in microseconds.
        let paper = [2.702, 8.002, 5.188, 5.125];
        for (row, paper_us) in costs(Frequency::from_mhz(400), 100_000, 1)
            .iter()
            .zip(paper)
        {
            let ratio = row.overhead_us / paper_us;
            assert!(
                (0.92..1.08).contains(&ratio),
                "{row:?} against {paper_us} us"
            );
        }
        let rows = costs(Frequency::from_mhz(800), 100_000, 1);
        let over_monotonic = rows[1].overhead_us / rows[2].overhead_us;
        assert!(
            (1.4..1.6).contains(&over_monotonic),
            "the paper's 1.5: {over_monotonic}"
        );
    }

    #[test]
    fn rvec_is_as_precise_as_the_counter() {
        let rows = precision(Frequency::from_mhz(800), 1_000, 1);
        assert!(
            rows[0].error_ns < 0.001 && rows[1].error_ns < 1.25,
            "{rows:?}"
        );
        assert!(rows[2].error_ns > 100.0, "{rows:?}");
        let variation = rows[1].deviation_us / rows[1].mean_us;
        assert!(
            (0.034..0.042).contains(&variation),
            "the paper has 0.042: {variation}"
        );
    }
}
