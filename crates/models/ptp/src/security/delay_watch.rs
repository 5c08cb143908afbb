//! Detection of unsigned delays by comparison with earlier values.

use std::collections::VecDeque;

use timeloom_time::Duration;
use timeloom_time::convert::saturating_i64;
use timeloom_wire::TimeInterval;

use crate::Stamp;

/// Watches a quantity that should be constant: the delay of a link, or the arrival minus origin and
/// correction of Syncs. If an attacker lengthens a wire, the change is seen as a jump. A wire that
/// was longer from the start is not detected.
///
/// The offset of a clock that is not adjusted changes linearly, because its oscillator drifts.
/// [`drifting`](Self::drifting) allows for that, so that the first correct value after a silence is
/// not taken for a jump.
#[derive(Clone, Debug)]
pub struct DelayWatch {
    bound: TimeInterval,
    drifts: bool,
    /// The newest values, with which each new value is compared.
    recent: VecDeque<Taken>,
    /// Values of the last minute, which separate drift from noise. Empty unless `drifts` is true.
    past: VecDeque<Taken>,
}

#[derive(Clone, Copy, Debug)]
struct Taken {
    at: Stamp,
    value: TimeInterval,
}

const LENGTH: usize = 15;
/// Greatest number of stored past values.
const PAST: usize = 16;
/// Minimum time between two stored past values.
const PAST_EVERY: Duration = Duration::from_s(4);
/// Greatest relative drift of two clocks: each is off by at most 0.01 %, as the default profiles of
/// IEEE 1588 require.
const MOST_DRIFT: f64 = 2e-4;

impl DelayWatch {
    /// Returns a watch that reports a value if it differs by more than `bound` from the median of
    /// the last fifteen values.
    pub const fn new(bound: TimeInterval) -> Self {
        Self {
            bound,
            drifts: false,
            recent: VecDeque::new(),
            past: VecDeque::new(),
        }
    }

    /// Returns a watch that reports a value if it differs by more than `bound` from a prediction.
    /// The prediction is the median of the previous values, after each is extrapolated by the drift
    /// (at most 200 ppm) that these values and those of the last minute show.
    pub fn drifting(bound: TimeInterval) -> Self {
        Self {
            drifts: true,
            ..Self::new(bound)
        }
    }

    /// Adds a value that was measured at `at`. Returns `Some(jump)` if the value is out of bounds.
    /// Such a value is not stored, so that an attacker can shift the median by at most `bound` per
    /// fifteen values (plus the drift).
    pub fn sample(&mut self, value: TimeInterval, at: Stamp) -> Option<TimeInterval> {
        if self.recent.len() == LENGTH {
            let expected = self.expected(at);
            let jump = value - expected;
            if jump.0.unsigned_abs() > self.bound.0.unsigned_abs() {
                return Some(jump);
            }
            self.remember(Taken {
                at,
                value: expected,
            });
            self.recent.pop_front();
        }
        self.recent.push_back(Taken { at, value });
        None
    }

    /// Returns the value that is expected at `at`.
    fn expected(&self, at: Stamp) -> TimeInterval {
        let drift = if self.drifts { self.drift() } else { 0.0 };
        let moved = self.recent.iter().map(|taken| {
            let since_ns = (at - taken.at).as_ns() as f64;
            taken.value + TimeInterval::from_ns(saturating_i64(drift * since_ns))
        });
        let mut moved: Vec<TimeInterval> = moved.collect();
        moved.sort_unstable();
        moved[moved.len() / 2]
    }

    /// Returns the median of the slopes between any two values (Theil–Sen estimator). Single values
    /// that are late by milliseconds have no effect on it.
    fn drift(&self) -> f64 {
        let all: Vec<&Taken> = self.past.iter().chain(&self.recent).collect();
        let mut slopes = Vec::with_capacity(all.len() * all.len() / 2);
        for (i, early) in all.iter().enumerate() {
            for late in &all[i + 1..] {
                let apart_ns = (late.at - early.at).as_ns() as f64;
                if apart_ns > 0.0 {
                    slopes.push((late.value - early.value).as_ns_f64() / apart_ns);
                }
            }
        }
        if slopes.is_empty() {
            return 0.0;
        }
        let middle = slopes.len() / 2;
        let (_, median, _) = slopes.select_nth_unstable_by(middle, f64::total_cmp);
        median.clamp(-MOST_DRIFT, MOST_DRIFT)
    }

    /// Stores a past value if enough time has passed since the previous one.
    fn remember(&mut self, place: Taken) {
        let is_due = |last: &Taken| place.at - last.at >= PAST_EVERY;
        if !self.drifts || !self.past.back().is_none_or(is_due) {
            return;
        }
        if self.past.len() == PAST {
            self.past.pop_front();
        }
        self.past.push_back(place);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BOUND: TimeInterval = TimeInterval::from_ns(100_000);
    const EVERY_NS: i64 = 250_000_000;

    /// Returns an oscillator's offset after `n` Syncs, with ± 20 µs of noise as of software
    /// timestamps.
    fn offset(n: i64, drift_ppm: i64) -> TimeInterval {
        let noise_ns = n.wrapping_mul(6_364_136_223_846_793_005) >> 40;
        TimeInterval::from_ns(n * EVERY_NS / 1_000_000 * drift_ppm + noise_ns % 20_000)
    }

    fn at(n: i64) -> Stamp {
        Stamp::from_ns(n * EVERY_NS)
    }

    fn learned(mut watch: DelayWatch, syncs: i64, drift_ppm: i64) -> DelayWatch {
        for n in 0..syncs {
            assert_eq!(watch.sample(offset(n, drift_ppm), at(n)), None, "{n}");
        }
        watch
    }

    #[test]
    fn after_a_silence_a_drifting_clock_is_where_its_drift_led_it() {
        for drift_ppm in [-100, -30, 30, 100] {
            let mut watch = learned(DelayWatch::drifting(BOUND), 240, drift_ppm);
            // Half a minute of silence gives 3 ms of drift at 100 ppm, thirty times the bound.
            let n = 240 + 120;
            assert_eq!(watch.sample(offset(n, drift_ppm), at(n)), None);
            let late = offset(n + 1, drift_ppm) + TimeInterval::from_ns(200_000);
            assert!(watch.sample(late, at(n + 1)).is_some(), "{drift_ppm}");
        }
    }

    #[test]
    fn without_drift_a_silence_is_no_excuse() {
        let mut watch = learned(DelayWatch::new(BOUND), 240, 0);
        let late = offset(360, 0) + TimeInterval::from_ns(150_000);
        assert!(watch.sample(late, at(360)).is_some());
        let drifted = offset(360, 0) + TimeInterval::from_ns(3_000_000);
        assert!(watch.sample(drifted, at(360)).is_some());
    }

    #[test]
    fn syncs_that_came_late_do_not_tilt_the_drift() {
        let mut watch = DelayWatch::drifting(TimeInterval::from_ns(5_000_000));
        for n in 0..120 {
            // Every fourth Sync arrives 3 ms late, as if the processor had been busy.
            let late_ns = if n % 4 == 3 { 3_000_000 } else { 0 };
            let value = offset(n, 30) + TimeInterval::from_ns(late_ns);
            assert_eq!(watch.sample(value, at(n)), None);
        }
        assert!((watch.drift() - 30e-6).abs() < 3e-6, "{}", watch.drift());
    }

    #[test]
    fn a_lie_that_runs_faster_than_crystals_do_is_not_followed() {
        let mut watch = learned(DelayWatch::drifting(BOUND), 240, 0);
        let mut caught = 0;
        for n in 240..480 {
            // One millisecond per second is five times the greatest drift of two clocks.
            let lie = TimeInterval::from_ns((n - 240) * EVERY_NS / 1_000);
            caught += i32::from(watch.sample(offset(n, 0) + lie, at(n)).is_some());
        }
        assert!(caught > 200, "{caught} of 240");
    }
}
