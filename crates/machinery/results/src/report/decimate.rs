//! Reduction of a series, for example from a million samples to eight hundred pixel columns.
//!
//! Of the samples in one column, the first, the minimum, the maximum and the last are kept, in
//! their order. A line through these covers the same pixels as the line through all samples: no
//! peak is lost, and no value is invented.

use super::number::Range;

/// Returns at most four points for each of `columns` columns of the range `x`. The points must be
/// sorted by x. Points that are outside of `x` or not finite are left out.
pub(super) fn decimate(
    points: impl IntoIterator<Item = (f64, f64)>,
    x: Range,
    columns: usize,
) -> Vec<(f64, f64)> {
    let mut kept = Vec::new();
    let mut bucket: Option<Bucket> = None;
    for (at, value) in points {
        let part = x.part(at);
        if !(0.0..=1.0).contains(&part) || !value.is_finite() {
            continue;
        }
        let column = (part * columns as f64) as usize;
        match &mut bucket {
            Some(open) if open.column == column => open.add((at, value)),
            _ => {
                if let Some(full) = bucket.take() {
                    full.emit(&mut kept);
                }
                bucket = Some(Bucket::new(column, (at, value)));
            }
        }
    }
    if let Some(full) = bucket {
        full.emit(&mut kept);
    }
    kept
}

/// Extremes of the samples in one column, each with its position in the series.
struct Bucket {
    column: usize,
    count: usize,
    first: (f64, f64),
    least: (usize, (f64, f64)),
    greatest: (usize, (f64, f64)),
    last: (f64, f64),
}

impl Bucket {
    fn new(column: usize, point: (f64, f64)) -> Self {
        Self {
            column,
            count: 1,
            first: point,
            least: (0, point),
            greatest: (0, point),
            last: point,
        }
    }

    fn add(&mut self, point: (f64, f64)) {
        if point.1 < self.least.1.1 {
            self.least = (self.count, point);
        }
        if point.1 > self.greatest.1.1 {
            self.greatest = (self.count, point);
        }
        self.last = point;
        self.count += 1;
    }

    fn emit(self, kept: &mut Vec<(f64, f64)>) {
        let mut four = [
            (0, self.first),
            self.least,
            self.greatest,
            (self.count - 1, self.last),
        ];
        four.sort_unstable_by_key(|(place, _)| *place);
        let mut before = None;
        for (place, point) in four {
            if before != Some(place) {
                kept.push(point);
            }
            before = Some(place);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_million_points_keep_their_extremes() {
        let x = Range {
            low: 0.0,
            high: 1e6,
        };
        let value = |i: i32| if i == 654_321 { 99.0 } else { f64::from(i % 7) };
        let kept = decimate((0..1_000_000).map(|i| (f64::from(i), value(i))), x, 800);
        assert!(kept.len() <= 3200, "{}", kept.len());
        assert!(kept.contains(&(654_321.0, 99.0)));
        assert!(kept.is_sorted_by(|a, b| a.0 < b.0));
    }

    #[test]
    fn few_points_stay_as_they_are() {
        let points = [(0.0, 1.0), (0.5, 1.0), (1.0, 3.0)];
        assert_eq!(
            decimate(
                points,
                Range {
                    low: 0.0,
                    high: 1.0
                },
                800
            ),
            points
        );
        assert_eq!(
            decimate(
                [(2.0, 1.0), (0.5, f64::NAN)],
                Range {
                    low: 0.0,
                    high: 1.0
                },
                800
            ),
            []
        );
    }
}
