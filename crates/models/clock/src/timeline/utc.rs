//! UTC, derived from a timeline that follows TAI.

use timeloom_time::{ClockMap, Duration, Instant, Utc};

use crate::TimelineTime;
use crate::quality::Interval;

/// The next leap second, or one that has just passed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LeapSecond {
    /// TAI instant at which the new offset takes effect.
    pub at: Instant<TimelineTime>,
    /// +1 if a second is inserted before `at`, −1 if a second is omitted.
    pub change_s: i8,
}

/// Conversion of a timeline that follows TAI to UTC.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UtcView {
    /// TAI minus UTC in seconds, before `leap`.
    pub tai_offset_s: i16,
    /// The next leap second, if one is announced.
    pub leap: Option<LeapSecond>,
}

impl UtcView {
    /// Returns UTC for an interval of TAI. This count of nanoseconds cannot represent an inserted
    /// second (23:59:60); during that second, UTC stays just before midnight. An interval that
    /// contains the change of the offset covers the values on both sides of it.
    pub fn view(&self, tai: Interval<TimelineTime>) -> Interval<Utc> {
        let (earliest, latest) = (self.at(tai.earliest()), self.at(tai.latest()));
        let estimate = self.at(tai.estimate());
        // With an omitted second, the estimate may be outside of the ends, and is moved to the
        // nearer one.
        Interval::around(estimate, estimate - earliest, latest - estimate)
    }

    /// Maps an instant. The map is monotonic, so the ends of an interval map to its ends.
    fn at(&self, tai: Instant<TimelineTime>) -> Instant<Utc> {
        let behind = |offset_s: i64| ClockMap::ahead_by(-Duration::from_s(offset_s));
        let before = i64::from(self.tai_offset_s);
        let Some(leap) = self.leap else {
            return behind(before).at(tai);
        };
        let after = before + i64::from(leap.change_s);
        if tai >= leap.at {
            return behind(after).at(tai);
        }
        let midnight = behind(after).at(leap.at);
        behind(before).at(tai).min(midnight - Duration::from_ns(1))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_inserted_second_is_the_end_of_the_day() {
        let at = Instant::from_ns(1_000_000_000_000);
        let view = UtcView {
            tai_offset_s: 37,
            leap: Some(LeapSecond { at, change_s: 1 }),
        };
        let point = |ns: i64| {
            let tai = at + Duration::from_ns(ns);
            view.view(Interval::around(tai, Duration::ZERO, Duration::ZERO))
                .estimate()
                .as_ns()
        };
        let midnight = 1_000_000_000_000 - 38_000_000_000;
        assert_eq!(point(0), midnight);
        assert_eq!(point(-1), midnight - 1);
        assert_eq!(point(-500_000_000), midnight - 1);
        assert_eq!(point(-1_500_000_000), midnight - 500_000_000);
        let wide = Interval::around(at, Duration::from_s(3), Duration::from_s(2));
        assert_eq!(view.view(wide).latest().as_ns(), midnight + 2_000_000_000);
        assert_eq!(view.view(wide).earliest().as_ns(), midnight - 2_000_000_000);
    }
}
