//! Reading of a timeline that can be stored, sent and compared.

use timeloom_time::Duration;

use super::{Interval, Status};
use crate::TimelineTime;

/// Identifier of a timeline: a 128-bit number, equal on all hosts that share the timeline.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TimelineId(pub u128);

/// Reading of a timeline: the timeline's identifier, the status, and an interval if there is one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stamp {
    timeline: TimelineId,
    status: Status,
    interval: Option<Interval<TimelineTime>>,
}

/// Order of two stamps, as far as their intervals determine it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Order {
    /// The first stamp was certainly taken before the second.
    Before,
    /// The first stamp was certainly taken after the second.
    After,
    /// The order is unknown: the intervals overlap, or one stamp has none.
    Uncertain,
}

/// Error for a comparison of stamps of different timelines.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("stamps of timelines {:032x} and {:032x} do not compare", first.0, second.0)]
pub struct OtherTimeline {
    /// Timeline of the first stamp.
    pub first: TimelineId,
    /// Timeline of the second stamp.
    pub second: TimelineId,
}

impl Stamp {
    /// Returns a reading with an interval. If the status is one without an interval, the interval
    /// is dropped.
    pub fn new(timeline: TimelineId, status: Status, interval: Interval<TimelineTime>) -> Self {
        let interval = status.may_have_interval().then_some(interval);
        Self {
            timeline,
            status,
            interval,
        }
    }

    /// Returns a reading without an interval; `status` is the reason.
    pub fn void(timeline: TimelineId, status: Status) -> Self {
        Self {
            timeline,
            status,
            interval: None,
        }
    }

    /// Returns the identifier of the timeline that was read.
    pub fn timeline(&self) -> TimelineId {
        self.timeline
    }

    /// Returns the status: the quality of the interval, or the reason for which there is none.
    pub fn status(&self) -> Status {
        self.status
    }

    /// Returns the interval that contains true time; `None` if the status permits none.
    pub fn interval(&self) -> Option<Interval<TimelineTime>> {
        self.interval
    }

    /// Returns the order in time of this stamp and `other`.
    ///
    /// # Errors
    /// Fails if the stamps belong to different timelines.
    pub fn compare(&self, other: &Self) -> Result<Order, OtherTimeline> {
        if self.timeline != other.timeline {
            return Err(OtherTimeline {
                first: self.timeline,
                second: other.timeline,
            });
        }
        Ok(match (self.interval, other.interval) {
            (Some(a), Some(b)) if a.latest() < b.earliest() => Order::Before,
            (Some(a), Some(b)) if a.earliest() > b.latest() => Order::After,
            _ => Order::Uncertain,
        })
    }

    /// Returns true if more than `length` has certainly passed from `self` to `now`, for example if
    /// a lease has expired. Returns false if this is uncertain.
    ///
    /// # Errors
    /// Fails if the stamps belong to different timelines.
    pub fn certainly_older_than(
        &self,
        length: Duration,
        now: &Self,
    ) -> Result<bool, OtherTimeline> {
        let shifted = Self {
            interval: self.interval.map(|i| i.shifted(length)),
            ..*self
        };
        Ok(shifted.compare(now)? == Order::Before)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use timeloom_time::Instant;

    fn stamp(at: i64, width: i64) -> Stamp {
        let half = Duration::from_ns(width);
        Stamp::new(
            TimelineId(1),
            Status::Ok,
            Interval::around(Instant::from_ns(at), half, half),
        )
    }

    #[test]
    fn order_is_told_only_when_it_is_certain() {
        assert_eq!(stamp(0, 4).compare(&stamp(10, 5)), Ok(Order::Before));
        assert_eq!(stamp(0, 5).compare(&stamp(10, 5)), Ok(Order::Uncertain));
        assert_eq!(stamp(20, 4).compare(&stamp(10, 5)), Ok(Order::After));
        let void = Stamp::void(TimelineId(1), Status::SourceLost);
        assert_eq!(void.compare(&stamp(0, 0)), Ok(Order::Uncertain));
        assert!(
            Stamp::void(TimelineId(2), Status::Ok)
                .compare(&void)
                .is_err()
        );
    }

    #[test]
    fn a_lease_is_over_only_when_no_doubt_is_left() {
        let (granted, ten) = (stamp(0, 2), Duration::from_ns(10));
        assert_eq!(granted.certainly_older_than(ten, &stamp(14, 2)), Ok(false));
        assert_eq!(granted.certainly_older_than(ten, &stamp(15, 2)), Ok(true));
    }

    #[test]
    fn a_status_without_an_interval_drops_it() {
        let interval = stamp(0, 1).interval().unwrap();
        assert_eq!(
            Stamp::new(TimelineId(1), Status::Disrupted, interval).interval(),
            None
        );
    }
}
