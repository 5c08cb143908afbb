//! Statistics of a signal in one run, and the deviation of a signal between two runs, as shown by
//! `timeloom compare` and `timeloom sweep`.
//!
//! [`crate::compare_runs`] finds the position of the first difference between two runs. This module
//! computes the *size* of the differences.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use serde::Serialize;
use timeloom_time::Instant;

use crate::{Alignment, Deviation, ResultsError, RunDirectory, Sample, SignalRow};
use crate::{Series, deviation_aligned};

/// Statistics of a signal in one run, in its unit.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Spread {
    /// Number of samples; at least one.
    pub samples: usize,
    /// Minimum.
    pub min: f64,
    /// Arithmetic mean of the samples, all with the same weight, as in checks.
    pub mean: f64,
    /// Maximum.
    pub max: f64,
    /// Value of the last sample.
    pub last: f64,
}

impl Spread {
    /// Computes the statistics of samples that are sorted by time; `None` if there are no samples.
    pub fn of(samples: &[Sample]) -> Option<Self> {
        let (_, last) = *samples.last()?;
        let values = || samples.iter().map(|(_, value)| *value);
        // The mean is updated with each sample, because the sum of large values could overflow.
        let mean = values().zip(1u32..).fold(0.0, |mean, (value, count)| {
            mean + (value - mean) / f64::from(count)
        });
        Some(Self {
            samples: samples.len(),
            min: values().fold(f64::INFINITY, f64::min),
            mean,
            max: values().fold(f64::NEG_INFINITY, f64::max),
            last,
        })
    }

    /// Returns the difference between maximum and minimum.
    pub fn range(&self) -> f64 {
        self.max - self.min
    }
}

/// Maximum permitted deviation between two runs.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Threshold {
    /// Value in the signal's unit.
    Value(f64),
    /// Share (0.01 is 1 %) of the signal's range in the first run.
    Share(f64),
}

impl Threshold {
    /// Returns the threshold in the signal's unit; `first` are the statistics of the first run.
    fn value(self, first: &Spread) -> f64 {
        match self {
            Self::Value(value) => value,
            Self::Share(share) => share * first.range(),
        }
    }
}

/// Deviation of one signal between two runs.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct SignalApart {
    /// Name of the signal, as `source.name`.
    pub signal: String,
    /// Unit; empty if there is none.
    pub unit: Arc<str>,
    /// Statistics in the first run; `None` if that run did not record the signal.
    pub first: Option<Spread>,
    /// Statistics in the second run; `None` if that run did not record the signal.
    pub second: Option<Spread>,
    /// Deviation over the virtual time that both runs cover; `None` if there is no such time.
    pub apart: Option<Deviation>,
    /// Maximum permitted deviation in the signal's unit; `None` if there is no threshold.
    pub allowed: Option<f64>,
    /// True if the deviation exceeds the permitted one. A signal that one run lacks exceeds any
    /// threshold.
    pub past: bool,
}

impl SignalApart {
    /// Compares one signal of two runs.
    fn new(
        signal: String,
        [first, second]: [&Series; 2],
        alignment: Alignment,
        threshold: Option<Threshold>,
    ) -> Self {
        let spread = Spread::of(&first.samples);
        let apart = deviation_aligned(&first.samples, &second.samples, alignment);
        let allowed = threshold
            .zip(spread.as_ref())
            .map(|(threshold, spread)| threshold.value(spread));
        let within = match (apart, allowed) {
            (Some(apart), Some(allowed)) => apart.max_abs <= allowed,
            _ => false,
        };
        let unit = if first.samples.is_empty() {
            &second.unit
        } else {
            &first.unit
        };
        Self {
            signal,
            unit: Arc::clone(unit),
            first: spread,
            second: Spread::of(&second.samples),
            apart,
            allowed,
            past: threshold.is_some() && !within,
        }
    }
}

/// Signals of two runs, from which their deviations are computed.
#[derive(Clone, Debug, Default)]
pub struct Signals {
    /// Signals of the first run by `source.name`.
    pub first: BTreeMap<String, Series>,
    /// Signals of the second run.
    pub second: BTreeMap<String, Series>,
}

impl Signals {
    /// Reads the signals of both runs.
    ///
    /// # Errors
    /// Fails if one of the runs cannot be read.
    pub fn read(first: &RunDirectory, second: &RunDirectory) -> Result<Self, ResultsError> {
        Ok(Self {
            first: first.all_series()?,
            second: second.all_series()?,
        })
    }

    /// Returns the names of the signals that at least one run has.
    pub fn names(&self) -> BTreeSet<&str> {
        let both = self.first.keys().chain(self.second.keys());
        both.map(String::as_str).collect()
    }

    /// Returns the deviation of each signal, sorted by name. `threshold` returns the permitted
    /// deviation of a signal.
    pub fn apart(
        &self,
        alignment: Alignment,
        threshold: impl Fn(&str) -> Option<Threshold>,
    ) -> Vec<SignalApart> {
        let none = Series::default();
        let of = |run: &BTreeMap<String, Series>, name: &str| run.get(name).cloned();
        self.names()
            .into_iter()
            .map(|name| {
                let first = of(&self.first, name).unwrap_or_else(|| none.clone());
                let second = of(&self.second, name).unwrap_or_else(|| none.clone());
                let series = [&first, &second];
                SignalApart::new(name.to_owned(), series, alignment, threshold(name))
            })
            .collect()
    }
}

impl RunDirectory {
    /// Returns all signals by `source.name`, each sorted by time. A sample takes sixteen bytes of
    /// memory.
    ///
    /// # Errors
    /// Fails if the table cannot be read.
    pub fn all_series(&self) -> Result<BTreeMap<String, Series>, ResultsError> {
        let mut found: BTreeMap<String, Series> = BTreeMap::new();
        self.for_each(|row: SignalRow| {
            let name = format!("{}.{}", row.source, row.name);
            let series = found.entry(name).or_insert_with_key(|name| Series {
                selector: name.clone(),
                unit: row.unit,
                samples: Vec::new(),
            });
            series.samples.push((row.t_virtual, row.value));
            Ok(())
        })?;
        for series in found.values_mut() {
            series.samples.sort_by_key(|(at, _)| *at);
        }
        Ok(found)
    }
}

/// Returns the value of a series at a given instant: the last sample's value, or the value on the
/// line to the next sample. Returns `None` before the first sample and after the last.
pub fn value_at(samples: &[Sample], at: Instant<timeloom_time::Virtual>) -> Option<f64> {
    let next = samples.partition_point(|(t, _)| *t <= at);
    let &(t0, v0) = samples.get(next.checked_sub(1)?)?;
    match samples.get(next) {
        Some(&(t1, v1)) => Some(v0 + (v1 - v0) * ((at - t0).as_s_f64() / (t1 - t0).as_s_f64())),
        None => (t0 == at).then_some(v0),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn series(points: &[(i64, f64)]) -> Series {
        Series {
            unit: "m".into(),
            samples: points.iter().map(|&(s, v)| (at(s), v)).collect(),
            ..Series::default()
        }
    }

    fn at(s: i64) -> Instant<timeloom_time::Virtual> {
        Instant::from_ns(s * 1_000_000_000)
    }

    #[test]
    fn a_spread_is_of_all_samples() {
        let spread = Spread::of(&series(&[(0, 2.0), (1, 6.0), (2, 4.0)]).samples).unwrap();
        assert_eq!((spread.min, spread.mean, spread.max), (2.0, 4.0, 6.0));
        assert_eq!((spread.samples, spread.last, spread.range()), (3, 4.0, 4.0));
        assert_eq!(Spread::of(&[]), None);
    }

    #[test]
    fn a_threshold_is_a_value_or_a_share_of_the_first_runs_range() {
        let (a, b) = (
            series(&[(0, 0.0), (1, 10.0)]),
            series(&[(0, 0.0), (1, 10.5)]),
        );
        let past =
            |threshold| SignalApart::new("x".into(), [&a, &b], Alignment::Linear, threshold).past;
        assert!(!past(None));
        assert!(!past(Some(Threshold::Value(0.5))) && past(Some(Threshold::Value(0.49))));
        assert!(!past(Some(Threshold::Share(0.05))) && past(Some(Threshold::Share(0.049))));
    }

    #[test]
    fn signals_of_only_one_run_exceed_any_threshold() {
        let there = BTreeMap::from([("a.x".to_owned(), series(&[(0, 1.0)]))]);
        let signals = Signals {
            first: BTreeMap::new(),
            second: there,
        };
        let judged = |threshold: Option<Threshold>| {
            signals.apart(Alignment::Linear, |_| threshold).remove(0)
        };
        let apart = judged(Some(Threshold::Value(1e9)));
        assert!(apart.past && apart.first.is_none() && apart.apart.is_none());
        assert_eq!(&*apart.unit, "m");
        assert!(!judged(None).past);
    }

    #[test]
    fn a_value_between_samples_lies_on_their_line() {
        let samples = series(&[(1, 2.0), (3, 6.0)]).samples;
        let values = [0, 1, 2, 3, 4].map(|s| value_at(&samples, at(s)));
        assert_eq!(values, [None, Some(2.0), Some(4.0), Some(6.0), None]);
    }
}
