//! What a keeper publishes and a reader reads.

use timeloom_time::{ClockMap, Duration, Instant};

use super::local::{LocalNow, WatchLimits};
use crate::quality::{Interval, Requirement, Stamp, Status, TimelineId};
use crate::{Core, RateError, Timeline};

/// A line from the core clock to the timeline, with how far true time may lie
/// from it. Equation 1 of QuartzV with both uncertainties, and with the limits
/// that QuartzV's clock page lacks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Segment {
    /// Whose segment this is.
    pub timeline: TimelineId,
    /// `Ok`, or why there is no interval. What age makes of an `Ok` the reader
    /// finds out itself.
    pub status: Status,
    /// The machine when the segment was made; its core clock is the line's start.
    pub origin: LocalNow,
    /// What a reader may find different without calling it a disturbance.
    pub watch: WatchLimits,
    /// The estimate.
    pub map: ClockMap<Core, Timeline>,
    /// At the origin, how far true time may lie before the estimate.
    pub below: Duration,
    /// At the origin, how far true time may lie after the estimate.
    pub above: Duration,
    /// How fast `below` grows with age.
    pub below_growth: RateError,
    /// How fast `above` grows with age.
    pub above_growth: RateError,
    /// The core clock's step.
    pub resolution: Duration,
    /// Later readings are [`Status::SourceLost`].
    pub fresh_until: Instant<Core>,
    /// Later readings have no interval.
    pub void_after: Instant<Core>,
    /// Later readings are [`Status::DaemonDead`].
    pub alive_until: Instant<Core>,
}

impl Segment {
    /// A segment that says only why there is no interval. What a timeline
    /// begins with: a fresh timeline is unknown, never ± 0.
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

    /// What the segment's age alone makes of its status.
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

    /// The interval when the core clock shows `core`, whatever the status.
    ///
    /// Everything is rounded outward: products up, one step of the core clock
    /// because it may be that far ahead of what it shows, and 2 ns because the
    /// line's value was rounded down.
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

    /// The core instant after which the interval is wider than `requirement`,
    /// or void.
    pub fn meets_until(&self, requirement: &Requirement) -> Instant<Core> {
        let rounding = Duration::from_ns(2);
        let spare_below = requirement.below - self.below - rounding;
        let spare_above = requirement.above - self.above - self.resolution - rounding;
        let lasts =
            lasting(spare_below, self.below_growth).min(lasting(spare_above, self.above_growth));
        (self.origin.core + lasts).min(self.void_after)
    }
}

/// How long it takes until `spare` has grown away.
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
