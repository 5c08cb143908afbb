//! Conversion of a port's time to the units of messages.

use timeloom_time::Duration;
use timeloom_wire::{Stamp, TimeInterval, Timestamp};

/// Converts a stamp to the form in messages: seconds and nanoseconds since the same epoch. A time
/// before the epoch becomes the epoch, since messages have no sign.
pub(crate) const fn on_the_wire(stamp: Stamp) -> Timestamp {
    Timestamp::from_ns(stamp.as_ns())
}

/// Converts a duration to the units of a correction.
pub(crate) const fn interval(length: Duration) -> TimeInterval {
    TimeInterval::from_ns(length.as_ns())
}

/// Converts `length` of a clock to the units of a clock that runs `ppb` parts per billion faster.
/// The correction is computed separately, so that a double loses no bit of the nanoseconds.
pub(crate) fn scaled(length: Duration, ppb: f64) -> TimeInterval {
    let exact = interval(length);
    TimeInterval(exact.0.saturating_add((exact.0 as f64 * ppb * 1e-9) as i64))
}
