//! Masters that were heard and are not followed (IEEE 1588-2008, 9.3.2.4).

use timeloom_time::{Duration, Instant};

use crate::Local;
use crate::best_master::Dataset;

#[derive(Clone, Debug)]
struct Record {
    dataset: Dataset,
    last: Instant<Local>,
    before: Option<Instant<Local>>,
}

/// Stores the last two Announces of at most [`CAPACITY`] senders. A flood from forged masters
/// therefore costs a bounded table, and does not displace the current master.
#[derive(Clone, Debug, Default)]
pub(crate) struct ForeignMasters(Vec<Record>);

const CAPACITY: usize = 8;
/// Window in announce intervals: two Announces within four intervals qualify a master (9.3.2.4.4).
const WINDOW_INTERVALS: i64 = 4;

impl ForeignMasters {
    pub(crate) fn heard(&mut self, dataset: Dataset, now: Instant<Local>) {
        if let Some(record) = self
            .0
            .iter_mut()
            .find(|r| r.dataset.sender == dataset.sender)
        {
            record.before = Some(record.last);
            record.last = now;
            record.dataset = dataset;
            return;
        }
        if self.0.len() == CAPACITY {
            let worst =
                (0..CAPACITY).max_by(|a, b| self.0[*a].dataset.compare(&self.0[*b].dataset));
            self.0.swap_remove(worst.expect("the table is full"));
        }
        self.0.push(Record {
            dataset,
            last: now,
            before: None,
        });
    }

    /// Returns the best master that has sent two Announces recently and was not silent for
    /// `timeout`.
    pub(crate) fn best(
        &mut self,
        now: Instant<Local>,
        interval: Duration,
        timeout: Duration,
    ) -> Option<Dataset> {
        self.0.retain(|record| now - record.last < timeout);
        let window = Duration::from_ns(interval.as_ns().saturating_mul(WINDOW_INTERVALS));
        let qualified = self
            .0
            .iter()
            .filter(|r| r.before.is_some_and(|before| r.last - before <= window));
        qualified.map(|r| r.dataset).min_by(Dataset::compare)
    }

    /// Returns the earliest time at which a stored master will have been silent for `timeout`.
    pub(crate) fn next_expiry(&self, timeout: Duration) -> Option<Instant<Local>> {
        self.0.iter().map(|record| record.last + timeout).min()
    }
}
