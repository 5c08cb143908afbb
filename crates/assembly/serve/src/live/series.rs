//! Samples of one signal in bounded memory. As long as there are few samples, each is stored.
//! Later, each bucket stores the smallest and the largest value of several consecutive samples.

use serde::Serialize;

/// Signal of a run.
#[derive(Debug)]
pub(crate) struct Series {
    /// Name of the signal, as `source.name`.
    pub(crate) name: String,
    pub(crate) unit: String,
    buckets: Vec<Bucket>,
    /// Number of samples in a full bucket; a power of two.
    per_bucket: u64,
    /// Number of samples in the last bucket.
    in_last: u64,
    /// Number of times that buckets were merged. Each merge changes the indices of buckets.
    generation: u32,
    summary: Summary,
}

/// Range of the values of consecutive samples.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Bucket {
    begin_s: f64,
    low: f64,
    high: f64,
}

/// Statistics of all samples, for the text and the table beside a chart.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub(crate) struct Summary {
    pub(crate) count: u64,
    pub(crate) first: f64,
    pub(crate) last: f64,
    pub(crate) last_s: f64,
    pub(crate) low: f64,
    pub(crate) high: f64,
}

/// Position of a reader in a series.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Place {
    generation: u32,
    /// Number of buckets that the reader has. The last of them may have changed since.
    buckets: usize,
    /// Number of samples in the buckets that the reader has.
    samples: u64,
}

/// Buckets that a reader lacks.
#[derive(Debug, PartialEq, Serialize)]
pub(crate) struct Addition {
    /// Number of buckets that the reader keeps unchanged; the new ones follow.
    pub(crate) from: usize,
    /// Beginnings of the new buckets, in virtual seconds.
    pub(crate) t: Vec<f64>,
    pub(crate) low: Vec<f32>,
    /// Largest values of the buckets; empty if each equals the bucket's `low`.
    pub(crate) high: Vec<f32>,
    pub(crate) summary: Summary,
}

impl Place {
    /// Returns true if the reader already has buckets of this signal.
    pub(crate) fn is_known(&self) -> bool {
        self.samples > 0
    }
}

impl Addition {
    /// Returns the number of points.
    pub(crate) fn len(&self) -> usize {
        self.t.len()
    }
}

impl Series {
    pub(crate) fn new(name: String, unit: String) -> Self {
        Self {
            name,
            unit,
            buckets: Vec::new(),
            per_bucket: 1,
            in_last: 0,
            generation: 0,
            summary: Summary::default(),
        }
    }

    /// Adds a sample. Threads record samples concurrently, so a sample may be slightly earlier than
    /// the previous one. Such a sample is drawn at the instant of the previous one.
    pub(crate) fn push(&mut self, t_s: f64, value: f64) {
        let t_s = self
            .buckets
            .last()
            .map_or(t_s, |last| last.begin_s.max(t_s));
        self.summarise(t_s, value);
        match self.buckets.last_mut() {
            Some(last) if self.in_last < self.per_bucket => {
                self.in_last += 1;
                last.low = last.low.min(value);
                last.high = last.high.max(value);
            }
            _ => {
                if self.buckets.len() >= MOST_BUCKETS {
                    self.merge();
                }
                self.in_last = 1;
                self.buckets.push(Bucket {
                    begin_s: t_s,
                    low: value,
                    high: value,
                });
            }
        }
    }

    /// Returns the buckets after `place`, and moves `place` to the end; `None` if there are no new
    /// buckets.
    pub(crate) fn since(&self, place: &mut Place) -> Option<Addition> {
        if place.samples == self.summary.count {
            return None;
        }
        let from = match place.generation == self.generation {
            // The last one may have grown.
            true => place.buckets.saturating_sub(1),
            false => 0,
        };
        *place = Place {
            generation: self.generation,
            buckets: self.buckets.len(),
            samples: self.summary.count,
        };
        let added = &self.buckets[from..];
        let are_single = added.iter().all(|bucket| bucket.low == bucket.high);
        let high = added.iter().map(|bucket| drawn(bucket.high));
        Some(Addition {
            from,
            t: added.iter().map(|bucket| bucket.begin_s).collect(),
            low: added.iter().map(|bucket| drawn(bucket.low)).collect(),
            high: if are_single {
                Vec::new()
            } else {
                high.collect()
            },
            summary: self.summary,
        })
    }

    fn summarise(&mut self, t_s: f64, value: f64) {
        let sum = &mut self.summary;
        if sum.count == 0 {
            (sum.first, sum.low, sum.high) = (value, value, value);
        }
        sum.count += 1;
        sum.low = sum.low.min(value);
        sum.high = sum.high.max(value);
        (sum.last, sum.last_s) = (value, t_s);
    }

    /// Merges pairs of full buckets.
    fn merge(&mut self) {
        let pair = |pair: &[Bucket]| Bucket {
            begin_s: pair[0].begin_s,
            low: pair
                .iter()
                .map(|bucket| bucket.low)
                .fold(f64::INFINITY, f64::min),
            high: pair
                .iter()
                .map(|bucket| bucket.high)
                .fold(f64::NEG_INFINITY, f64::max),
        };
        self.buckets = self.buckets.chunks(2).map(pair).collect();
        self.per_bucket *= 2;
        self.generation += 1;
    }
}

/// Converts a value for drawing: seven digits, and finite, because JSON has no infinity.
fn drawn(value: f64) -> f32 {
    (value as f32).clamp(f32::MIN, f32::MAX)
}

/// Maximum number of buckets, which exceeds the number of pixels of a chart. It is even, so that
/// all buckets can be merged in pairs.
const MOST_BUCKETS: usize = 1200;

#[cfg(test)]
mod tests {
    use super::*;

    /// Model of a page, which applies additions.
    #[derive(Default)]
    struct Page {
        place: Place,
        points: Vec<(f64, f32, f32)>,
    }

    impl Page {
        fn update(&mut self, series: &Series) -> usize {
            let Some(added) = series.since(&mut self.place) else {
                return 0;
            };
            self.points.truncate(added.from);
            let high = if added.high.is_empty() {
                &added.low
            } else {
                &added.high
            };
            let points = added.t.iter().zip(&added.low).zip(high);
            self.points
                .extend(points.map(|((t, low), high)| (*t, *low, *high)));
            added.t.len()
        }
    }

    #[test]
    fn rare_and_frequent_readers_of_a_series_have_the_same_samples() {
        let mut series = Series::new("tank.level".into(), "m".into());
        let (mut always, mut seldom) = (Page::default(), Page::default());
        for number in 0..20_000 {
            series.push(f64::from(number) * 0.01, f64::from(number % 7));
            always.update(&series);
            if number % 997 == 0 {
                seldom.update(&series);
            }
        }
        seldom.update(&series);
        assert_eq!(seldom.update(&series), 0, "nothing is new");
        assert_eq!(always.points, seldom.points);
        assert!(always.points.len() <= MOST_BUCKETS && always.points.len() >= MOST_BUCKETS / 2);
        // No extreme value is lost.
        let (low, high) = (&always.points[5].1, &always.points[5].2);
        assert_eq!((*low, *high), (0.0, 6.0));
        assert_eq!(series.summary.count, 20_000);
        assert_eq!((series.summary.low, series.summary.high), (0.0, 6.0));
    }

    #[test]
    fn a_page_that_never_looked_gets_all_at_once() {
        let mut series = Series::new("a.b".into(), String::new());
        for number in 0..1_000_000 {
            series.push(f64::from(number), 1e300 * f64::from(number % 3 - 1));
        }
        let mut page = Page::default();
        assert!(page.update(&series) <= MOST_BUCKETS);
        assert!(
            page.points
                .iter()
                .all(|(_, low, high)| low.is_finite() && high.is_finite())
        );
    }

    #[test]
    fn an_early_sample_is_drawn_in_order() {
        let mut series = Series::new("a.b".into(), String::new());
        for t_s in [1.0, 3.0, 2.0] {
            series.push(t_s, t_s);
        }
        let added = series.since(&mut Place::default()).expect("three are new");
        assert_eq!(added.t, [1.0, 3.0, 3.0]);
        assert!(added.high.is_empty());
    }
}
