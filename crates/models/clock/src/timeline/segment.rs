//! Segment of a timeline, which an estimator publishes for readers.

use timeloom_time::{ClockMap, Duration, Instant};

use super::local::{LocalNow, WatchLimits};
use crate::quality::{Interval, Requirement, Stamp, Status, TimelineId};
use crate::{Core, RateError, TimelineTime};

/// Line from the core clock to the timeline, with error bounds. It is Equation 1 of QuartzV with
/// both uncertainties, and with limits of validity, which QuartzV's clock page lacks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Segment {
    /// Identifier of the timeline.
    pub timeline: TimelineId,
    /// [`Status::Ok`], or the reason for which there is no interval. When an `Ok` segment ages, the
    /// reader itself derives the status.
    pub status: Status,
    /// Readings of the machine when the segment was made; the line starts at its core clock.
    pub origin: LocalNow,
    /// Differences between `origin` and a later reading that are not a disturbance.
    pub watch: WatchLimits,
    /// Map from the core clock to the estimate of the timeline.
    pub map: ClockMap<Core, TimelineTime>,
    /// Distance from the earliest possible true time to the estimate, at the origin.
    pub below: Duration,
    /// Distance from the estimate to the latest possible true time, at the origin.
    pub above: Duration,
    /// Rate at which `below` grows with the time since the origin.
    pub below_growth: RateError,
    /// Rate at which `above` grows with the time since the origin.
    pub above_growth: RateError,
    /// Step of the core clock.
    pub resolution: Duration,
    /// Core-clock instant after which readings have [`Status::SourceLost`].
    pub fresh_until: Instant<Core>,
    /// Core-clock instant after which readings have no interval.
    pub void_after: Instant<Core>,
    /// Core-clock instant after which readings have [`Status::DaemonDead`].
    pub alive_until: Instant<Core>,
}

impl Segment {
    /// Returns a segment without an interval; `status` is the reason. A timeline starts with such a
    /// segment: its time is unknown, which is different from an error of ± 0.
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

    /// Returns a reading of the timeline on a machine with the readings `now`.
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

    /// Returns the status when the core clock shows `core`, derived from the age alone.
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
    /// The interval is rounded outward: products are rounded up; one step of the core clock is
    /// added, because its true value may be ahead of its reading by that much; and 2 ns are added,
    /// because the value of the line was rounded down.
    pub fn interval_at(&self, core: Instant<Core>) -> Interval<TimelineTime> {
        let age = core - self.origin.core;
        let rounding = Duration::from_ns(2);
        let (mut below, mut above) = (self.below, self.above);
        if age.is_negative() {
            // The reading may be that of another core, at most `watch.backwards` before the origin.
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

    /// Returns the core-clock instant after which the interval no longer meets `requirement`, or
    /// does not exist.
    pub fn meets_until(&self, requirement: &Requirement) -> Instant<Core> {
        let rounding = Duration::from_ns(2);
        let spare_below = requirement.below - self.below - rounding;
        let spare_above = requirement.above - self.above - self.resolution - rounding;
        let lasts =
            lasting(spare_below, self.below_growth).min(lasting(spare_above, self.above_growth));
        (self.origin.core + lasts).min(self.void_after)
    }
}

/// Returns the time in which `growth` uses up `spare`.
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
