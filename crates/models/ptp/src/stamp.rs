//! Conversion of timestamps to the formats of messages.

use timeloom_time::Duration;
use timeloom_time::convert::saturating_i64;
use timeloom_wire::{Stamp, TimeInterval, Timestamp};

/// Converts a timestamp to the format in messages: seconds and nanoseconds since the same epoch. An
/// instant before the epoch becomes the epoch, since the format has no sign.
pub(crate) const fn on_the_wire(stamp: Stamp) -> Timestamp {
    Timestamp::from_ns(stamp.as_ns())
}

/// Converts a length of time to the format of `correctionField`.
pub(crate) const fn interval(length: Duration) -> TimeInterval {
    TimeInterval::from_ns(length.as_ns())
}

/// Converts `length`, measured by one clock, to the units of a clock that is `ppb` parts per 10^9
/// faster. The difference is computed separately, so that the double loses no bit of the
/// nanoseconds.
pub(crate) fn scaled(length: Duration, ppb: f64) -> TimeInterval {
    let exact = interval(length);
    TimeInterval(
        exact
            .0
            .saturating_add(saturating_i64(exact.0 as f64 * ppb * 1e-9)),
    )
}
