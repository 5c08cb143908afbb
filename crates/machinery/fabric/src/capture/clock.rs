//! From the civil clock, which stamps frames, to the monotonic clock.
//!
//! Linux steers both with the same frequency, so their difference is constant
//! until somebody sets the civil clock. The difference cannot be read in one
//! go: the civil clock is read between two readings of the monotonic one, and
//! half the gap between those bounds the error.

use nix::sys::time::TimeSpec;
use nix::time::{ClockId, clock_gettime};
use timeloom_time::{Duration, Instant, Wall};

/// Civil minus monotonic time, and how wrong that may be.
#[derive(Debug, Clone, Copy)]
pub(super) struct ClockOffset {
    offset: Duration,
    pub(super) error: Duration,
}

impl ClockOffset {
    /// The tightest of a few brackets; one of them may have been interrupted.
    pub(super) fn measure() -> Self {
        let brackets: [Self; TRIES] = std::array::from_fn(|_| Self::bracket());
        brackets
            .into_iter()
            .min_by_key(|bracket| bracket.error)
            .expect("TRIES is not 0")
    }

    fn bracket() -> Self {
        let before_ns = read_ns(ClockId::CLOCK_MONOTONIC);
        let civil_ns = read_ns(ClockId::CLOCK_REALTIME);
        let after_ns = read_ns(ClockId::CLOCK_MONOTONIC);
        let width_ns = after_ns - before_ns;
        Self {
            offset: Duration::from_ns(civil_ns - (before_ns + width_ns / 2)),
            // Rounded up, and one more for the kernel's own rounding.
            error: Duration::from_ns(width_ns / 2 + 2),
        }
    }

    pub(super) fn to_wall(self, realtime_ns: i64) -> Instant<Wall> {
        Instant::from_ns(realtime_ns - self.offset.as_ns())
    }

    /// Whether the civil clock was set between `earlier` and now.
    pub(super) fn stepped_from(&self, earlier: &Self) -> bool {
        let moved_ns = (self.offset - earlier.offset).as_ns().abs();
        moved_ns > (self.error + earlier.error).as_ns()
    }
}

/// What the civil clock shows.
pub(super) fn realtime_ns() -> i64 {
    read_ns(ClockId::CLOCK_REALTIME)
}

fn read_ns(clock: ClockId) -> i64 {
    let time: TimeSpec = clock_gettime(clock).expect("every Linux has these clocks");
    Duration::from_s_ns(time.tv_sec(), time.tv_nsec()).as_ns()
}

const TRIES: usize = 3;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn converts_now_to_now() {
        let offset = ClockOffset::measure();
        let before = Instant::from_ns(read_ns(ClockId::CLOCK_MONOTONIC));
        let converted = offset.to_wall(realtime_ns());
        let after = Instant::from_ns(read_ns(ClockId::CLOCK_MONOTONIC));
        assert!(
            converted >= before - offset.error,
            "{converted:?} {before:?} {offset:?}"
        );
        assert!(
            converted <= after + offset.error,
            "{converted:?} {after:?} {offset:?}"
        );
    }

    #[test]
    fn only_a_step_is_a_step() {
        let first = ClockOffset::measure();
        let second = ClockOffset::measure();
        assert!(!second.stepped_from(&first), "{first:?} {second:?}");
        let set = ClockOffset {
            offset: second.offset + Duration::from_ms(1),
            ..second
        };
        assert!(set.stepped_from(&first));
    }
}
