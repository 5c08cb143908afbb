//! The machine's monotonic clock, for the record.

use rustix::time::{ClockId, clock_gettime};
use timeloom_time::{Duration, Instant, Wall};

/// Now on the wall scale: CLOCK_MONOTONIC, nanoseconds since boot.
///
/// The standard library's `Instant` is the same clock but keeps its number to
/// itself, and records of several programs must be comparable.
pub fn wall_now() -> Instant<Wall> {
    let now = clock_gettime(ClockId::Monotonic);
    Instant::ZERO + Duration::from_s_ns(now.tv_sec, now.tv_nsec)
}
