//! Waiting for an instant of a timeline: never too early.

use timeloom_clock::Timeline as Scale;
use timeloom_clock::quality::Stamp;
use timeloom_time::{Duration, Instant};

use crate::error::WaitError;
use crate::timeline::Timeline;

/// Result of a wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Woken {
    /// Target instant.
    pub target: Instant<Scale>,
    /// Reading that showed the target as reached: `earliest ≥ target`.
    pub stamp: Stamp,
    /// Time from the target to the reading's earliest: the least lateness.
    pub overshoot: Duration,
}

/// Period with its phase, for [`Timeline::wait_until_next_period`] (QuartzV's
/// `timeline_set_schedparams`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Schedule {
    /// Length of the period.
    pub period: Duration,
    /// Beginning of any one period, on the timeline.
    pub start: Instant<Scale>,
    /// Last beginning that was waited for; `None` at first.
    pub last: Option<Instant<Scale>>,
}

impl Schedule {
    /// Creates a schedule with beginnings at `start` and all whole periods from there.
    pub fn new(period: Duration, start: Instant<Scale>) -> Self {
        Self {
            period,
            start,
            last: None,
        }
    }

    /// Returns the first beginning after `now` that was not waited for yet; `None` if the period is
    /// not positive, or if the beginning is out of range.
    pub fn next_after(&self, now: Instant<Scale>) -> Option<Instant<Scale>> {
        let period_ns = i128::from(self.period.as_ns());
        if period_ns <= 0 {
            return None;
        }
        // A clock may be set a little back: the last beginning is then in the future by its
        // estimate, and must not be returned twice.
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
    /// Fails if the timeline has no interval, or loses it.
    pub fn wait_until(&self, target: Instant<Scale>) -> Result<Woken, WaitError> {
        loop {
            match self.reached(target)? {
                Ok(woken) => return Ok(woken),
                Err(left) => std::thread::sleep(left),
            }
        }
    }

    /// Waits as [`Self::wait_until`] does, sleeping by `sleep`, which may return early. If `sleep`
    /// returns `true`, the wait is given up and the result is `None`.
    pub(crate) fn wait_until_unless(
        &self,
        target: Instant<Scale>,
        mut sleep: impl FnMut(core::time::Duration) -> bool,
    ) -> Option<Result<Woken, WaitError>> {
        loop {
            match self.reached(target) {
                Err(lost) => return Some(Err(lost)),
                Ok(Ok(woken)) => return Some(Ok(woken)),
                Ok(Err(left)) if sleep(left) => return None,
                Ok(Err(_)) => {}
            }
        }
    }

    /// Returns the result if `target` has certainly come, or else the sleep before the next check:
    /// the local clock may run a little faster than the timeline, and the timeline may be lost
    /// meanwhile.
    fn reached(
        &self,
        target: Instant<Scale>,
    ) -> Result<Result<Woken, core::time::Duration>, WaitError> {
        let stamp = self.read().map_err(WaitError::Page)?;
        let interval = stamp.interval().ok_or(WaitError::Void(stamp.status()))?;
        let left = target - interval.earliest();
        if left <= Duration::ZERO {
            return Ok(Ok(Woken {
                target,
                stamp,
                overshoot: -left,
            }));
        }
        let left_ns = left.min(LOOK_AGAIN).as_ns() as u64;
        Ok(Err(core::time::Duration::from_nanos(left_ns)))
    }

    /// Waits for the next beginning of a period. Those that passed while the program was busy are
    /// skipped.
    ///
    /// # Errors
    /// Fails as [`Self::wait_until`] does.
    pub fn wait_until_next_period(&self, schedule: &mut Schedule) -> Result<Woken, WaitError> {
        let stamp = self.read().map_err(WaitError::Page)?;
        let now = stamp.interval().ok_or(WaitError::Void(stamp.status()))?;
        let target = schedule
            .next_after(now.estimate())
            .ok_or(WaitError::Senseless)?;
        let woken = self.wait_until(target)?;
        schedule.last = Some(target);
        Ok(woken)
    }

    /// Waits until it is certain that `length` of the timeline has passed.
    ///
    /// # Errors
    /// Fails as [`Self::wait_until`] does.
    pub fn sleep(&self, length: Duration) -> Result<Woken, WaitError> {
        let stamp = self.read().map_err(WaitError::Page)?;
        let now = stamp.interval().ok_or(WaitError::Void(stamp.status()))?;
        self.wait_until(now.latest() + length)
    }

    /// Waits until `stamp` certainly lies in the past, for every reader of the timeline on any host
    /// (Spanner's commit wait).
    ///
    /// # Errors
    /// Fails as [`Self::wait_until`] does; with [`WaitError::Void`] also if `stamp` has no
    /// interval.
    ///
    /// # Panics
    /// Panics if the stamp is of another timeline: there is no order between timelines.
    pub fn commit_wait(&self, stamp: &Stamp) -> Result<Woken, WaitError> {
        assert_eq!(stamp.timeline(), self.id(), "a stamp of another timeline");
        let interval = stamp.interval().ok_or(WaitError::Void(stamp.status()))?;
        self.wait_until(interval.latest() + Duration::from_ns(1))
    }
}

/// Longest sleep without a check of the timeline.
const LOOK_AGAIN: Duration = Duration::from_ms(500);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn beginnings_are_whole_periods_from_the_start_and_come_once() {
        let at = Instant::<Scale>::from_ns;
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
