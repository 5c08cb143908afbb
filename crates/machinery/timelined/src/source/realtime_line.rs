//! Conversion of recent timestamps of the system clock, which the kernel or other programs made, to
//! the core clock.

use timeloom_clock::{Core, RateError};
use timeloom_time::{Duration, Instant};

use super::SourceFailure;
use crate::LocalClock;
use crate::local_clock::Pair;

/// Last known relation of the system clock to the core clock.
#[derive(Debug, Default)]
pub(super) struct RealtimeLine {
    last: Option<Pair>,
}

impl RealtimeLine {
    /// Returns the earliest and latest core instant at which the system clock showed `stamp_ns`.
    ///
    /// # Errors
    /// Fails if the clock was stepped since the last reading, or if the timestamp is in the future
    /// or older than two seconds.
    pub(super) fn place(
        &mut self,
        clock: &LocalClock,
        stamp_ns: i64,
    ) -> Result<(Instant<Core>, Instant<Core>), SourceFailure> {
        let pair = clock.realtime();
        if let Some(last) = self.last.replace(pair) {
            check_even(&last, &pair)?;
        }
        place(&pair, stamp_ns)
    }
}

/// Checks that the system clock was not stepped between two readings.
pub(crate) fn check_even(last: &Pair, now: &Pair) -> Result<(), SourceFailure> {
    let passed_ns = now.other_ns.saturating_sub(last.other_ns);
    let least = now.before - last.after;
    let most = now.after - last.before;
    let slew = STEERED.over_up(most);
    let passed = Duration::from_ns(passed_ns);
    if passed < least - slew || passed > most + slew {
        return Err(SourceFailure::because(
            "the system clock was set, or is being slewed fast",
        ));
    }
    Ok(())
}

fn place(pair: &Pair, stamp_ns: i64) -> Result<(Instant<Core>, Instant<Core>), SourceFailure> {
    let age = Duration::from_ns(pair.other_ns.saturating_sub(stamp_ns));
    if age > Duration::from_s(2) {
        return Err(SourceFailure::because(
            "a time stamp is old, or the system clock was set",
        ));
    }
    // The other program's reading may be slightly later than ours.
    if age < -Duration::from_ms(1) {
        return Err(SourceFailure::because("a time stamp lies in the future"));
    }
    let slew = STEERED.over_up(age.max(-age)) + Duration::from_ns(1);
    Ok((pair.before - age - slew, pair.after - age + slew))
}

/// Maximum deviation of the system clock's rate from the core clock's. The kernel steers by 500 ppm
/// at most, and the calibration of the counter may be off by 50 ppm.
pub(super) const STEERED: RateError = RateError::from_ppb(550_000);

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    pub(in crate::source) fn pair(core_ns: i64, other_ns: i64) -> Pair {
        Pair {
            before: Instant::from_ns(core_ns),
            other_ns,
            after: Instant::from_ns(core_ns + 100),
        }
    }

    #[test]
    fn a_step_is_noticed_and_slewing_is_not() {
        let first = pair(1_000_000_000, 5_000_000_000);
        assert!(check_even(&first, &pair(2_000_000_000, 6_000_500_000)).is_ok());
        assert!(check_even(&first, &pair(2_000_000_000, 6_001_000_000)).is_err());
        assert!(check_even(&first, &pair(2_000_000_000, 5_999_000_000)).is_err());
    }

    #[test]
    fn a_stamp_lies_between_the_two_instants() {
        let now = pair(1_000_000_000, 5_000_000_000);
        let (low, high) = place(&now, 4_999_000_000).unwrap();
        // Core times a millisecond ago, if the system clock ran as slowly or as fast as possible.
        assert!(low.as_ns() <= 998_999_450 && high.as_ns() >= 999_000_650);
        assert!((high - low) < Duration::from_us(2));
        assert!(place(&now, 2_000_000_000).is_err());
        assert!(place(&now, 6_000_000_000).is_err());
        assert!(place(&now, i64::MIN).is_err());
    }
}
