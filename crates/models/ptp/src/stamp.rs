//! A port's time in the units of messages.

use timeloom_time::Duration;
use timeloom_wire::{Stamp, TimeInterval, Timestamp};

/// A stamp as messages carry it: seconds and nanoseconds since the same epoch. What is before the
/// epoch becomes the epoch, since messages have no sign.
pub(crate) const fn on_the_wire(stamp: Stamp) -> Timestamp {
    Timestamp::from_ns(stamp.as_ns())
}

/// A length of time in the units of a correction.
pub(crate) const fn interval(length: Duration) -> TimeInterval {
    TimeInterval::from_ns(length.as_ns())
}

/// `length` of a clock, told in the units of a clock that runs `ppb` parts per
/// billion faster. The correction is computed apart, so that no bit of the
/// nanoseconds is lost in a double.
pub(crate) fn scaled(length: Duration, ppb: f64) -> TimeInterval {
    let exact = interval(length);
    TimeInterval(exact.0.saturating_add((exact.0 as f64 * ppb * 1e-9) as i64))
}
