//! Deviation between two runs of the same signal.
//!
//! Both runs' series are functions of virtual time, interpolated between samples as lines or as
//! steps. The difference of the two is then exact: its maximum lies at a sample of either series,
//! and its mean square is an integral with a closed form. The result is therefore independent of
//! the sampling rates.

use serde::{Deserialize, Serialize};
use timeloom_time::{Instant, Virtual};

use crate::Sample;

/// Difference between two series over the time that both cover.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Deviation {
    /// Largest absolute difference, in the signal's unit.
    pub max_abs: f64,
    /// Root of the time-weighted mean square difference, in the same unit.
    pub rms: f64,
    /// Virtual instant in nanoseconds at which the largest difference first occurs.
    pub at_ns: i64,
}

/// Interpolation of a series between two of its samples.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Alignment {
    /// Straight line between the samples, for a sampled physical quantity.
    #[default]
    Linear,
    /// Value of the earlier sample until the later one, for a command or a state.
    Hold,
}

/// Returns the deviation of `b` from `a`. Both must be sorted by time, and are interpolated
/// linearly. Returns `None` if the two have no time in common.
pub fn deviation(a: &[Sample], b: &[Sample]) -> Option<Deviation> {
    deviation_aligned(a, b, Alignment::Linear)
}

/// Returns the deviation of `b` from `a`, with the interpolation that `alignment` selects.
pub fn deviation_aligned(a: &[Sample], b: &[Sample], alignment: Alignment) -> Option<Deviation> {
    let differences = differences(a, b, alignment)?;
    let (from, to) = (differences.first()?.0, differences.last()?.0);
    let mut result = Deviation {
        max_abs: 0.0,
        rms: 0.0,
        at_ns: from.as_ns(),
    };
    for (t, difference) in &differences {
        if difference.abs() > result.max_abs {
            result.max_abs = difference.abs();
            result.at_ns = t.as_ns();
        }
    }
    let square_s: f64 = differences
        .windows(2)
        .map(|pair| {
            let ((t0, d0), (t1, d1)) = (pair[0], pair[1]);
            let mean_square = match alignment {
                // Mean square of a line between the differences d0 and d1.
                Alignment::Linear => (d0 * d0 + d0 * d1 + d1 * d1) / 3.0,
                Alignment::Hold => d0 * d0,
            };
            mean_square * (t1 - t0).as_s_f64()
        })
        .sum();
    let length_s = (to - from).as_s_f64();
    result.rms = if length_s > 0.0 {
        (square_s / length_s).sqrt()
    } else {
        result.max_abs
    };
    Some(result)
}

/// Returns the share (0 … 1) of the common time for which `a` and `b` differ by at most
/// `tolerance`. An interval between two samples counts if the difference is within the tolerance at
/// both ends. Returns `None` if the two have no time in common.
pub fn share_within(
    a: &[Sample],
    b: &[Sample],
    alignment: Alignment,
    tolerance: f64,
) -> Option<f64> {
    let differences = differences(a, b, alignment)?;
    let length_s = (differences.last()?.0 - differences.first()?.0).as_s_f64();
    let close = |difference: f64| difference.abs() <= tolerance;
    if length_s == 0.0 {
        return Some(f64::from(u8::from(close(differences[0].1))));
    }
    let close_s: f64 = differences
        .windows(2)
        .filter(|pair| close(pair[0].1) && (alignment == Alignment::Hold || close(pair[1].1)))
        .map(|pair| (pair[1].0 - pair[0].0).as_s_f64())
        .sum();
    Some(close_s / length_s)
}

/// Returns `b` minus `a` at every instant at which either was sampled, over the time that both
/// cover.
pub(crate) fn differences(a: &[Sample], b: &[Sample], alignment: Alignment) -> Option<Vec<Sample>> {
    let from = a.first()?.0.max(b.first()?.0);
    let to = a.last()?.0.min(b.last()?.0);
    if from > to {
        return None;
    }
    let mut times: Vec<Instant<Virtual>> = a
        .iter()
        .chain(b)
        .map(|(t, _)| *t)
        .filter(|t| (from..=to).contains(t))
        .collect();
    times.sort_unstable();
    times.dedup();
    let (mut in_a, mut in_b) = (Cursor::new(a, alignment), Cursor::new(b, alignment));
    Some(
        times
            .into_iter()
            .map(|t| (t, in_b.at(t) - in_a.at(t)))
            .collect(),
    )
}

/// Iterator that evaluates a series at ascending times within its range.
struct Cursor<'a> {
    samples: &'a [Sample],
    alignment: Alignment,
    /// Index of the last sample at or before the time of the last request.
    index: usize,
}

impl<'a> Cursor<'a> {
    fn new(samples: &'a [Sample], alignment: Alignment) -> Self {
        Self {
            samples,
            alignment,
            index: 0,
        }
    }

    fn at(&mut self, t: Instant<Virtual>) -> f64 {
        while self
            .samples
            .get(self.index + 1)
            .is_some_and(|(next, _)| *next <= t)
        {
            self.index += 1;
        }
        let (t0, v0) = self.samples[self.index];
        match (self.samples.get(self.index + 1), self.alignment) {
            (Some(&(t1, v1)), Alignment::Linear) if t > t0 => {
                v0 + (v1 - v0) * ((t - t0).as_s_f64() / (t1 - t0).as_s_f64())
            }
            _ => v0,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn series(points: &[(i64, f64)]) -> Vec<Sample> {
        points
            .iter()
            .map(|&(ms, v)| (Instant::from_ns(ms * 1_000_000), v))
            .collect()
    }

    #[test]
    fn a_line_is_a_line_at_any_sampling() {
        let coarse = series(&[(0, 0.0), (1000, 10.0)]);
        let fine = series(&[(100, 1.0), (250, 2.5), (999, 9.99)]);
        let apart = deviation(&coarse, &fine).unwrap();
        assert!(apart.max_abs < 1e-12 && apart.rms < 1e-12, "{apart:?}");
    }

    #[test]
    fn the_closed_form_of_a_ramp() {
        // Between 0 and a ramp from 0 to 3, the mean square is 3 and the maximum is at the end.
        let apart = deviation(
            &series(&[(0, 0.0), (2000, 0.0)]),
            &series(&[(0, 0.0), (2000, 3.0)]),
        )
        .unwrap();
        assert!((apart.rms - 3f64.sqrt()).abs() < 1e-12, "{apart:?}");
        assert_eq!((apart.max_abs, apart.at_ns), (3.0, 2_000_000_000));
        let held = deviation_aligned(
            &series(&[(0, 0.0), (2000, 0.0)]),
            &series(&[(0, 1.0), (2000, 3.0)]),
            Alignment::Hold,
        )
        .unwrap();
        assert_eq!(held.rms, 1.0);
    }

    #[test]
    fn the_share_within_a_tolerance_is_a_share_of_time() {
        let flat = series(&[(0, 0.0), (1000, 0.0), (2000, 0.0), (4000, 0.0)]);
        let spike = series(&[(0, 0.1), (1000, 9.0), (2000, 0.1), (4000, 0.1)]);
        let share = |alignment| share_within(&flat, &spike, alignment, 0.5).unwrap();
        assert_eq!(share(Alignment::Linear), 0.5);
        assert_eq!(share(Alignment::Hold), 0.75);
        assert_eq!(share_within(&flat, &[], Alignment::Hold, 0.5), None);
    }

    #[test]
    fn nothing_in_common_is_not_zero() {
        assert_eq!(deviation(&[], &series(&[(0, 1.0)])), None);
        assert_eq!(deviation(&series(&[(0, 1.0)]), &series(&[(1, 1.0)])), None);
        let one = deviation(&series(&[(1, 1.0)]), &series(&[(0, 4.0), (2, 4.0)])).unwrap();
        assert_eq!((one.max_abs, one.rms, one.at_ns), (3.0, 3.0, 1_000_000));
    }

    proptest! {
        #[test]
        fn symmetric_and_rms_never_above_max(
            a in prop::collection::vec((0i64..1000, -1e3f64..1e3), 1..40), b in prop::collection::vec((0i64..1000, -1e3f64..1e3), 1..40)
        ) {
            let sorted = |mut v: Vec<(i64, f64)>| { v.sort_by_key(|p| p.0); series(&v) };
            let (a, b) = (sorted(a), sorted(b));
            let (there, back) = (deviation(&a, &b), deviation(&b, &a));
            prop_assert_eq!(there.is_some(), back.is_some());
            if let (Some(there), Some(back)) = (there, back) {
                prop_assert_eq!(there.max_abs, back.max_abs);
                prop_assert!(there.rms <= there.max_abs * (1.0 + 1e-9));
                prop_assert!((there.rms - back.rms).abs() <= 1e-9 * (1.0 + there.rms));
            }
            prop_assert_eq!(deviation(&a, &a).unwrap().max_abs, 0.0);
        }
    }
}
