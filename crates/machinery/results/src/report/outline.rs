//! Curves and sums over runs of any length, in bounded memory.
//!
//! Rows are pushed as they are read. When there are more than a page could show, those within one
//! small part of the axis are reduced: points to the few that a figure needs ([`decimate`]),
//! weights to their sum. A run with few rows is kept unchanged.

use std::sync::Arc;

use timeloom_time::Instant;

use super::decimate::decimate;
use super::number::Range;
use crate::{ResultsError, RunDirectory, Series};

/// Returns the curves of a run's signals, read in one pass over the table. A signal that the run
/// does not have is returned without samples.
pub(super) fn outlines(
    directory: &RunDirectory,
    selectors: &[&str],
) -> Result<Vec<Series>, ResultsError> {
    let mut found: Vec<(Arc<str>, Outline)> = Vec::new();
    found.resize_with(selectors.len(), Default::default);
    directory.each_sample(selectors, |index, row| {
        let (unit, outline) = &mut found[index];
        if outline.points.is_empty() {
            *unit = row.unit.clone();
        }
        outline.push(row.t_virtual.as_ns() as f64, row.value);
    })?;
    let series = |(selector, (unit, outline)): (&&str, (Arc<str>, Outline))| Series {
        selector: (*selector).to_owned(),
        unit,
        samples: (outline.into_points().into_iter())
            .map(|(at_ns, value)| (Instant::from_ns(at_ns as i64), value))
            .collect(),
    };
    Ok(selectors.iter().zip(found).map(series).collect())
}

/// Curve that keeps no more points than a page can show.
#[derive(Default)]
pub(super) struct Outline {
    points: Vec<(f64, f64)>,
}

impl Outline {
    /// Adds a point; points may come in any order.
    pub(super) fn push(&mut self, x: f64, y: f64) {
        self.points.push((x, y));
        if self.points.len() >= FULL {
            let all = std::mem::take(self).into_points();
            let (low, last) = (all[0].0, all[all.len() - 1].0);
            let high = if last > low { last } else { low + 1.0 };
            self.points = decimate(all, Range { low, high }, PARTS);
        }
    }

    /// Returns the points sorted by x. Points with equal x keep the order in which they were added.
    pub(super) fn into_points(mut self) -> Vec<(f64, f64)> {
        self.points.sort_by(|a, b| a.0.total_cmp(&b.0));
        self.points
    }
}

/// Weights at instants in nanoseconds. A figure shows the sum in each small part of the axis.
#[derive(Clone, Debug, Default)]
pub(super) struct Weights(Vec<(i64, i64)>);

impl Weights {
    pub(super) fn add(&mut self, at_ns: i64, weight: i64) {
        self.0.push((at_ns, weight));
        if self.0.len() >= FULL {
            self.0.sort_unstable();
            let (first, last) = (self.0[0].0, self.0[self.0.len() - 1].0);
            let width = last.abs_diff(first) / SUMS as u64 + 1;
            join(&mut self.0, |at| at.abs_diff(first) / width);
        }
    }

    /// Returns instants and weights, sorted by instant.
    pub(super) fn into_sorted(mut self) -> Vec<(i64, i64)> {
        self.0.sort_unstable();
        self.0
    }
}

/// Durations, of which percentiles are computed. If there are more than are kept individually,
/// durations that differ by less than half a per cent count as the longest of them.
#[derive(Clone, Debug, Default)]
pub(super) struct Lengths {
    /// Durations in nanoseconds, each with its number of occurrences.
    all: Vec<(i64, i64)>,
    count: i64,
}

impl Lengths {
    pub(super) fn add(&mut self, ns: i64) {
        self.count += 1;
        self.all.push((ns, 1));
        if self.all.len() >= FULL {
            self.all.sort_unstable();
            // The key consists of the exponent and the first eight bits of the fraction. Each
            // octave has 2⁸ parts, and the whole range of durations 2¹⁴.
            join(&mut self.all, |ns| (ns.max(0) as f64).to_bits() >> 44);
        }
    }

    /// Returns the number of durations.
    pub(super) fn count(&self) -> usize {
        usize::try_from(self.count).unwrap_or(usize::MAX)
    }

    /// Returns nearest-rank percentiles: for each of `percents`, the smallest duration such that at
    /// least this share of all durations is at most as long. Returns zero if there are no
    /// durations.
    pub(super) fn nearest_ranks<const N: usize>(mut self, percents: [i64; N]) -> [i64; N] {
        self.all.sort_unstable();
        percents.map(|percent| {
            let rank = (i128::from(self.count) * i128::from(percent) + 99) / 100;
            let mut below = 0;
            let reached = |&&(_, count): &&(i64, i64)| {
                below += i128::from(count);
                below >= rank.max(1)
            };
            self.all.iter().find(reached).map_or(0, |&(ns, _)| ns)
        })
    }
}

/// Merges neighbours for which `place` is equal. The result has the time of the last one and the
/// sum of their weights.
fn join(sorted: &mut Vec<(i64, i64)>, place: impl Fn(i64) -> u64) {
    sorted.dedup_by(|next, kept| {
        let same = place(next.0) == place(kept.0);
        if same {
            *kept = (next.0, kept.1.saturating_add(next.1));
        }
        same
    });
}

/// Maximum number of entries that are kept individually.
pub(super) const FULL: usize = 1 << 15;
/// Number of parts of the axis of a curve: five for each column of a plot, with at most four points
/// each.
const PARTS: usize = 1 << 12;
/// Number of parts of the axis of a lane: forty for each bar, so that a bar is off by a few per
/// cent at most.
const SUMS: usize = 1 << 14;

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_curve_keeps_its_ends_and_extremes_and_never_more_than_its_bound() {
        let count = 40 * FULL;
        let value = |i: usize| match i {
            700_001 => 99.0,
            900_003 => -99.0,
            _ => (i % 7) as f64,
        };
        let mut outline = Outline::default();
        for i in 0..count {
            outline.push(i as f64, value(i));
            assert!(outline.points.len() < FULL && outline.points.capacity() <= FULL);
        }
        let points = outline.into_points();
        assert!(points.is_sorted_by(|a, b| a.0 < b.0));
        for i in [0, 700_001, 900_003, count - 1] {
            assert!(points.contains(&(i as f64, value(i))), "{i}");
        }
        // Every remaining point must be one of the original points.
        assert!(points.iter().all(|&(x, y)| y == value(x as usize)));
    }

    #[test]
    fn sums_stay_and_the_number_of_entries_is_bounded() {
        let (mut weights, mut lengths) = (Weights::default(), Lengths::default());
        let count = 20 * FULL as i64;
        for i in 0..count {
            weights.add(i * 1_000, 3);
            lengths.add(1_000 + i);
            assert!(weights.0.len() < FULL && lengths.all.len() < FULL);
        }
        assert_eq!(lengths.count(), 20 * FULL);
        for (percent, found) in [50, 95, 100]
            .into_iter()
            .zip(lengths.nearest_ranks([50, 95, 100]))
        {
            let exact = (999 + count * percent / 100) as f64;
            assert!(
                (exact..exact * 1.005).contains(&(found as f64)),
                "{percent} %: {found}"
            );
        }
        let sorted = weights.into_sorted();
        assert_eq!(
            sorted.iter().map(|(_, weight)| weight).sum::<i64>(),
            3 * count
        );
        assert!(
            sorted.is_sorted()
                && sorted.last() == Some(&((count - 1) * 1_000, sorted[sorted.len() - 1].1))
        );
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(8))]
        #[test]
        fn the_outline_is_bounded_for_any_samples(all in prop::collection::vec(any::<(i64, i64)>(), 1..50)) {
            let (mut weights, mut lengths) = (Weights::default(), Lengths::default());
            for (at, weight) in all.iter().cycle().take(FULL + 100) {
                weights.add(*at, *weight);
                lengths.add(*at);
            }
            prop_assert!(weights.0.len() < FULL && lengths.all.len() < FULL);
            let greatest = all.iter().map(|(at, _)| *at).max();
            prop_assert_eq!(Some(lengths.nearest_ranks([100])[0]), greatest);
        }
    }
}
