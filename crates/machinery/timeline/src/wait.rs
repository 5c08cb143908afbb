//! Waiting for an instant of a timeline. No wait ends before the instant.

use timeloom_clock::TimelineTime;
use timeloom_clock::quality::Stamp;
use timeloom_time::{Duration, Instant};

use crate::error::WaitError;
use crate::timeline::Timeline;

/// Result of a wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WaitResult {
    /// Instant that was waited for.
    pub target: Instant<TimelineTime>,
    /// Reading that proves that the target is reached: its earliest end is not before the target.
    pub stamp: Stamp,
    /// Time from the target to the earliest end of the reading; the wait was at least this late.
    pub overshoot: Duration,
}

/// Period with its phase, for [`Timeline::wait_until_next_period`] (QuartzV's
/// `timeline_set_schedparams`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Schedule {
    /// Length of the period.
    pub period: Duration,
    /// Beginning of one of the periods, on the timeline.
    pub start: Instant<TimelineTime>,
    /// Beginning of a period that was waited for last; `None` before the first wait.
    pub last: Option<Instant<TimelineTime>>,
}

impl Schedule {
    /// Creates a schedule with a beginning at `start` and at every whole number of periods from
    /// there.
    pub fn new(period: Duration, start: Instant<TimelineTime>) -> Self {
        Self {
            period,
            start,
            last: None,
        }
    }

    /// Returns the first beginning of a period that is after `now` and was not waited for yet;
    /// `None` if the period is not positive or the result is out of range.
    pub fn next_after(&self, now: Instant<TimelineTime>) -> Option<Instant<TimelineTime>> {
        let period_ns = i128::from(self.period.as_ns());
        if period_ns <= 0 {
            return None;
        }
        // The timeline's estimate may be set back a little. The last beginning is then in the
        // future again, and must not be returned twice.
        let after = self.last.map_or(now, |last| last.max(now));
        let passed_ns = i128::from(after.as_ns()) - i128::from(self.start.as_ns());
        let periods = passed_ns.div_euclid(period_ns) + 1;
        let next_ns = i128::from(self.start.as_ns()) + periods * period_ns;
        i64::try_from(next_ns).ok().map(Instant::from_ns)
    }
}

impl Timeline {
    /// Waits until it is certain that the timeline has reached `target`.
    ///
    /// # Errors
    /// Fails if the timeline has no interval, or loses it during the wait.
    pub fn wait_until(&self, target: Instant<TimelineTime>) -> Result<WaitResult, WaitError> {
        loop {
            match self.reached(target)? {
                Ok(woken) => return Ok(woken),
                Err(left) => std::thread::sleep(left),
            }
        }
    }

    /// Waits as [`Self::wait_until`] does, with the function `sleep`, which may return early. If
    /// `sleep` returns `true`, the wait ends and the result is `None`.
    pub(crate) fn wait_until_unless(
        &self,
        target: Instant<TimelineTime>,
        mut sleep: impl FnMut(core::time::Duration) -> bool,
    ) -> Option<Result<WaitResult, WaitError>> {
        loop {
            match self.reached(target) {
                Err(lost) => return Some(Err(lost)),
                Ok(Ok(woken)) => return Some(Ok(woken)),
                Ok(Err(left)) if sleep(left) => return None,
                Ok(Err(_)) => {}
            }
        }
    }

    /// Returns the result if `target` is certainly reached, and otherwise the time to sleep before
    /// the next check. The sleep is limited, because the local clock may run slightly faster than
    /// the timeline and the timeline may lose its interval meanwhile.
    fn reached(
        &self,
        target: Instant<TimelineTime>,
    ) -> Result<Result<WaitResult, core::time::Duration>, WaitError> {
        let stamp = self.read().map_err(WaitError::Page)?;
        let interval = stamp.interval().ok_or(WaitError::Void(stamp.status()))?;
        let left = target - interval.earliest();
        if left <= Duration::ZERO {
            return Ok(Ok(WaitResult {
                target,
                stamp,
                overshoot: -left,
            }));
        }
        let left_ns = left.min(LOOK_AGAIN).as_ns() as u64;
        Ok(Err(core::time::Duration::from_nanos(left_ns)))
    }

    /// Waits for the beginning of the next period. Periods that began while the program was busy
    /// are skipped.
    ///
    /// # Errors
    /// Fails as [`Self::wait_until`] does.
    pub fn wait_until_next_period(&self, schedule: &mut Schedule) -> Result<WaitResult, WaitError> {
        let stamp = self.read().map_err(WaitError::Page)?;
        let now = stamp.interval().ok_or(WaitError::Void(stamp.status()))?;
        let target = schedule
            .next_after(now.estimate())
            .ok_or(WaitError::Senseless)?;
        let woken = self.wait_until(target)?;
        schedule.last = Some(target);
        Ok(woken)
    }

    /// Waits until it is certain that `length` has passed on the timeline.
    ///
    /// # Errors
    /// Fails as [`Self::wait_until`] does.
    pub fn sleep(&self, length: Duration) -> Result<WaitResult, WaitError> {
        let stamp = self.read().map_err(WaitError::Page)?;
        let now = stamp.interval().ok_or(WaitError::Void(stamp.status()))?;
        self.wait_until(now.latest() + length)
    }

    /// Waits until `stamp` is certainly in the past, for every reader of the timeline on any host
    /// (Spanner's commit wait).
    ///
    /// # Errors
    /// Fails as [`Self::wait_until`] does, and with [`WaitError::Void`] if `stamp` has no interval.
    ///
    /// # Panics
    /// Panics if the stamp is of another timeline, because instants of different timelines have no
    /// order.
    pub fn commit_wait(&self, stamp: &Stamp) -> Result<WaitResult, WaitError> {
        assert_eq!(stamp.timeline(), self.id(), "a stamp of another timeline");
        let interval = stamp.interval().ok_or(WaitError::Void(stamp.status()))?;
        self.wait_until(interval.latest() + Duration::from_ns(1))
    }
}

/// Longest sleep between two checks of the timeline.
const LOOK_AGAIN: Duration = Duration::from_ms(500);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn beginnings_are_whole_periods_from_the_start_and_come_once() {
        let at = Instant::<TimelineTime>::from_ns;
        let mut schedule = Schedule::new(Duration::from_ns(10), at(3));
        let next = |schedule: &Schedule, now| schedule.next_after(at(now)).unwrap().as_ns();
        assert_eq!(next(&schedule, -25), -17);
        assert_eq!(next(&schedule, 2), 3);
        assert_eq!(next(&schedule, 3), 13);
        schedule.last = Some(at(13));
        assert_eq!(next(&schedule, 12), 23, "set back, not given again");
        assert_eq!(next(&schedule, 48), 53, "missed ones are left out");
        let never = Schedule::new(Duration::ZERO, at(0));
        assert_eq!(never.next_after(at(0)), None);
        let end = Schedule::new(Duration::from_ns(10), at(i64::MAX - 3));
        assert_eq!(end.next_after(at(i64::MAX - 2)), None);
    }
}
