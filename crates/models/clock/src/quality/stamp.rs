//! Reading of a timeline that can be kept, sent and compared.

use timeloom_time::Duration;

use super::{Interval, Status};
use crate::Timeline;

/// Identifier of a timeline: 128 bits that are the same on every host that shares it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TimelineId(pub u128);

/// Reading of a timeline: the timeline, its status, and the interval if there is one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stamp {
    timeline: TimelineId,
    status: Status,
    interval: Option<Interval<Timeline>>,
}

/// Order of two stamps in time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Order {
    /// The first was certainly taken before the second.
    Before,
    /// The first was certainly taken after the second.
    After,
    /// Their intervals overlap, or one has none.
    Uncertain,
}

/// Error: stamps of different timelines do not compare.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("stamps of timelines {:032x} and {:032x} do not compare", first.0, second.0)]
pub struct OtherTimeline {
    /// Timeline of the first stamp.
    pub first: TimelineId,
    /// Timeline of the second stamp.
    pub second: TimelineId,
}

impl Stamp {
    /// Returns a reading with an interval. If `status` excludes an interval, the interval is
    /// dropped: a status outranks a number.
    pub fn new(timeline: TimelineId, status: Status, interval: Interval<Timeline>) -> Self {
        let interval = status.may_have_interval().then_some(interval);
        Self {
            timeline,
            status,
            interval,
        }
    }

    /// Returns a reading without an interval, with the reason.
    pub fn void(timeline: TimelineId, status: Status) -> Self {
        Self {
            timeline,
            status,
            interval: None,
        }
    }

    /// Returns the timeline that was read.
    pub fn timeline(&self) -> TimelineId {
        self.timeline
    }

    /// Returns the quality of the reading, or the reason for its absence.
    pub fn status(&self) -> Status {
        self.status
    }

    /// Returns the interval that contains true time; `None` if there is none.
    pub fn interval(&self) -> Option<Interval<Timeline>> {
        self.interval
    }

    /// Returns the order of this stamp and `other`.
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

    /// Returns true if more than `length` has certainly passed from `self` to `now` (an expired
    /// lease). Doubt counts as no.
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
