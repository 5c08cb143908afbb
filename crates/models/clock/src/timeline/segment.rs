//! Segment of a timeline, published by a keeper for its readers.

use timeloom_time::{ClockMap, Duration, Instant};

use super::local::{LocalNow, WatchLimits};
use crate::quality::{Interval, Requirement, Stamp, Status, TimelineId};
use crate::{Core, RateError, Timeline};

/// Line from the core clock to the timeline, with the error bounds of true time. Equation 1 of
/// QuartzV with both uncertainties, and with the limits that QuartzV's clock page lacks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Segment {
    /// Timeline of the segment.
    pub timeline: TimelineId,
    /// `Ok`, or the reason why there is no interval. The reader itself derives the status of an
    /// aged `Ok`.
    pub status: Status,
    /// The machine when the segment was made; its core clock is the start of the line.
    pub origin: LocalNow,
    /// Differences that a reader may observe without a disturbance.
    pub watch: WatchLimits,
    /// Estimate of the timeline.
    pub map: ClockMap<Core, Timeline>,
    /// Maximum distance of true time before the estimate, at the origin.
    pub below: Duration,
    /// Maximum distance of true time after the estimate, at the origin.
    pub above: Duration,
    /// Growth rate of `below` with age.
    pub below_growth: RateError,
    /// Growth rate of `above` with age.
    pub above_growth: RateError,
    /// Step of the core clock.
    pub resolution: Duration,
    /// Instant after which readings are [`Status::SourceLost`].
    pub fresh_until: Instant<Core>,
    /// Instant after which readings have no interval.
    pub void_after: Instant<Core>,
    /// Instant after which readings are [`Status::DaemonDead`].
    pub alive_until: Instant<Core>,
}

impl Segment {
    /// Returns a segment without an interval, with the reason. A timeline starts with one: a fresh
    /// timeline is unknown, never ± 0.
    pub fn void(
        timeline: TimelineId,
        status: Status,
        origin: LocalNow,
        watch: WatchLimits,
    ) -> Self {
        let map = ClockMap::new(origin.core, Instant::ZERO, timeloom_time::Rate::ONE);
        Self {
            timeline,
            status,
            origin,
            watch,
            map,
            below: Duration::MAX,
            above: Duration::MAX,
            below_growth: RateError::ZERO,
            above_growth: RateError::ZERO,
            resolution: Duration::ZERO,
            fresh_until: origin.core,
            void_after: origin.core,
            alive_until: Instant::FAR_FUTURE,
        }
    }

    /// Reads the timeline.
    pub fn read(&self, now: &LocalNow) -> Stamp {
        if !self.status.may_have_interval() {
            return Stamp::void(self.timeline, self.status);
        }
        if self.origin.disturbance_until(now, &self.watch).is_some() {
            return Stamp::void(self.timeline, Status::Disrupted);
        }
        let status = self.status_at(now.core);
        if now.core > self.void_after {
            return Stamp::void(self.timeline, status);
        }
        Stamp::new(self.timeline, status, self.interval_at(now.core))
    }

    /// Returns the status of the segment at this age, from the age alone.
    pub fn status_at(&self, core: Instant<Core>) -> Status {
        if !self.status.may_have_interval() {
            self.status
        } else if core > self.alive_until {
            Status::DaemonDead
        } else if core > self.fresh_until || core > self.void_after {
            Status::SourceLost
        } else {
            Status::Ok
        }
    }

    /// Returns the interval when the core clock shows `core`, whatever the status.
    ///
    /// Everything is rounded outward: products up, one step of the core clock because its value may
    /// be that far ahead of its reading, and 2 ns because the line's value was rounded down.
    pub fn interval_at(&self, core: Instant<Core>) -> Interval<Timeline> {
        let age = core - self.origin.core;
        let rounding = Duration::from_ns(2);
        let (mut below, mut above) = (self.below, self.above);
        if age.is_negative() {
            // Another core's view, at most `watch.backwards` before the origin.
            let growth = self.below_growth + self.above_growth;
            below += growth.over_up(-age);
            above += growth.over_up(-age);
        } else {
            below += self.below_growth.over_up(age);
            above += self.above_growth.over_up(age);
        }
        let above = above + self.resolution + rounding;
        Interval::around(self.map.at(core), below + rounding, above)
    }

    /// Returns the core instant after which the interval is wider than `requirement`, or void.
    pub fn meets_until(&self, requirement: &Requirement) -> Instant<Core> {
        let rounding = Duration::from_ns(2);
        let spare_below = requirement.below - self.below - rounding;
        let spare_above = requirement.above - self.above - self.resolution - rounding;
        let lasts =
            lasting(spare_below, self.below_growth).min(lasting(spare_above, self.above_growth));
        (self.origin.core + lasts).min(self.void_after)
    }
}

/// Returns the time in which `spare` is used up.
fn lasting(spare: Duration, growth: RateError) -> Duration {
    if spare.is_negative() {
        return Duration::ZERO;
    }
    if growth <= RateError::ZERO {
        return Duration::MAX;
    }
    let ns = i128::from(spare.as_ns()) * 1_000_000_000_000 / i128::from(growth.as_ppt());
    Duration::from_ns(i64::try_from(ns).unwrap_or(i64::MAX))
}
