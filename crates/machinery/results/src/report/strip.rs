//! Narrow plots of single signals, on a time axis that they share with lanes of events.

use std::fmt::Write;

use super::data::{RunData, seconds};
use super::decimate::decimate;
use super::markup::{escape, shortened};
use super::number::{Range, significant};
use crate::Series;

/// Signal, with a measure of its change.
pub(super) struct Strip<'a> {
    series: &'a Series,
    moved: f64,
}

/// Returns the few signals that changed most after the onset of an attack at `onset_s`. Without an
/// onset, returns those that vary most in relation to their size. Constant signals are left out.
pub(super) fn moved(run: &RunData, onset_s: Option<f64>) -> Vec<Strip<'_>> {
    let mut strips: Vec<Strip> = run
        .all_series()
        .filter_map(|it| Strip::new(it, onset_s))
        .collect();
    strips.sort_by(|a, b| b.moved.total_cmp(&a.moved));
    strips.dedup_by(|a, b| a.series.selector == b.series.selector);
    strips.truncate(MOST);
    strips
}

impl<'a> Strip<'a> {
    /// Measures the change of a signal; `None` if the signal does not change.
    fn new(series: &'a Series, onset_s: Option<f64>) -> Option<Self> {
        let onset_s = onset_s.unwrap_or(0.0);
        let range = |after: bool| {
            let samples = series.samples.iter();
            let samples = samples.filter(|(at, _)| (seconds(*at) >= onset_s) == after);
            Range::of(samples.map(|(_, value)| *value))
        };
        let whole = Range::of(series.samples.iter().map(|(_, value)| *value))?;
        let (before, after) = (range(false), range(true)?);
        // Change beyond the range before the onset, in relation to that range.
        let moved = match before {
            None => (whole.high - whole.low) / whole.high.abs().max(whole.low.abs()).max(1e-9),
            Some(before) => {
                let beyond = (after.high - before.high).max(before.low - after.low);
                beyond
                    / (before.high - before.low)
                        .max(1e-3 * before.high.abs())
                        .max(1e-9)
            }
        };
        (moved > 0.0).then_some(Self { series, moved })
    }

    /// Draws the strip below the height `top`, between the positions `left` and `right`.
    pub(super) fn draw(&self, out: &mut String, top: f64, x: Range, (left, right): (f64, f64)) {
        let samples = self
            .series
            .samples
            .iter()
            .map(|(at, value)| (seconds(*at), *value));
        let points = decimate(samples, x, COLUMNS);
        let Some(y) = Range::of(points.iter().map(|(_, value)| *value)) else {
            return;
        };
        let bottom = top + HEIGHT;
        let shown = y.padded(0.05);
        let mut path = String::new();
        for (index, (at, value)) in points.iter().enumerate() {
            let command = if index == 0 { 'M' } else { 'L' };
            let px = left + x.part(*at).clamp(0.0, 1.0) * (right - left);
            let py = bottom - shown.part(*value).clamp(0.0, 1.0) * HEIGHT;
            let _ = write!(path, "{command}{px:.1} {py:.1}");
        }
        let unit = match &*self.series.unit {
            "" | "1" => String::new(),
            unit => format!(" {unit}"),
        };
        let _ = writeln!(
            out,
            "<path class=\"lane\" d=\"M{left} {bottom:.1}H{right}\"/>\
             <path class=\"trace\" d=\"{path}\" stroke=\"#0072b2\" stroke-width=\"1.2\"/>\
             <text x=\"{0:.1}\" y=\"{1:.1}\" text-anchor=\"end\">{2}</text>\
             <text class=\"tick\" x=\"{0:.1}\" y=\"{3:.1}\" text-anchor=\"end\">{4} to {5}{6}</text>",
            left - 8.0,
            top + 16.0,
            escape(&shortened(&self.series.selector, 36)),
            top + 30.0,
            significant(y.low, 5),
            significant(y.high, 5),
            escape(&shortened(&unit, 12)),
        );
    }
}

pub(super) const HEIGHT: f64 = 52.0;
const MOST: usize = 5;
const COLUMNS: usize = 700;
