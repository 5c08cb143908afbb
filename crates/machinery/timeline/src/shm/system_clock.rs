//! The system clock as a source, read with `adjtimex`. It needs no privilege and works with any
//! daemon.

use timeloom_clock::Core;
use timeloom_clock::timeline::{Era, Exchange};
use timeloom_sys::clock::civil_state;
use timeloom_time::{Duration, Instant};

/// State of CLOCK_REALTIME, as reported by the kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SystemClock {
    /// CLOCK_REALTIME, in nanoseconds since 1970.
    pub realtime_ns: i64,
    /// The kernel's bound of the clock's error. The daemon sets it (chrony to half of the root
    /// delay plus the root dispersion), and the kernel adds 500 ppm of the time since.
    pub max_error: Duration,
    /// TAI minus UTC in seconds; 0 if the kernel's value was never set.
    pub tai_offset_s: i32,
    /// True if a daemon disciplines the clock and the kernel does not mark it as unsynchronised.
    pub synchronised: bool,
}

/// Reason why the system clock is not usable.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SystemClockError {
    /// No daemon disciplines the clock (STA_UNSYNC), or a leap second is in progress.
    #[error("no daemon vouches for the system clock")]
    Unsynchronised,
    /// The kernel's bound has only grown from 0 or is at its maximum, so the daemon that steers the
    /// clock states no error.
    #[error(
        "the daemon that steers the system clock states no error (systemd-timesyncd and phc2sys \
         set the kernel's bound to 0): vouch for one (`vouched_error`), or use another source"
    )]
    NoError,
    /// Neither the kernel nor the caller knows TAI minus UTC.
    #[error(
        "the kernel does not know how far TAI is from UTC; state it (`--tai-offset-s 37`, or \
         tai_offset_s in the configuration)"
    )]
    NoTaiOffset,
    /// The system call failed with this error number.
    #[error("adjtimex: {}", std::io::Error::from_raw_os_error(*.0))]
    Failed(i32),
}

impl SystemClock {
    /// Reads the clock and its bound at the same instant. The call takes about a microsecond, so it
    /// is meant for an estimator's poll and not for every reading.
    ///
    /// # Errors
    /// Fails with [`SystemClockError::Failed`].
    pub fn ask() -> Result<Self, SystemClockError> {
        let state = civil_state()
            .map_err(|error| SystemClockError::Failed(error.raw_os_error().unwrap_or_default()))?;
        Ok(Self {
            realtime_ns: state.realtime_ns,
            max_error: state.max_error,
            tai_offset_s: state.tai_offset_s,
            synchronised: state.synchronised,
        })
    }

    /// Returns the state as an exchange for an estimator. `between` are readings of the core clock
    /// before and after the state was read. `from_utc` is the duration to add to UTC: TAI minus UTC
    /// for a timeline of the scale TAI.
    ///
    /// # Errors
    /// Fails if no daemon disciplines the clock, or if the daemon states no error.
    pub fn exchange(
        &self,
        era: Era,
        between: (Instant<Core>, Instant<Core>),
        from_utc: Duration,
    ) -> Result<Exchange, SystemClockError> {
        if !self.synchronised {
            return Err(SystemClockError::Unsynchronised);
        }
        if self.max_error.as_ns() % WIDENED_PER_S.as_ns() == 0 {
            return Err(SystemClockError::NoError);
        }
        let shows = Instant::from_ns(self.realtime_ns) + from_utc;
        // The kernel counts the bound in whole microseconds, and a clock of microsecond resolution
        // is truncated to one.
        let error = self.max_error + Duration::from_us(2);
        Ok(Exchange::direct(era, between, shows, error))
    }
}

/// Growth of the kernel's bound per second. A daemon that measures its error sets the bound to any
/// number of microseconds, so a bound that is a multiple of this value has grown from 0.
const WIDENED_PER_S: Duration = Duration::from_us(500);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kernel_answers_and_an_unvouched_clock_tells_nothing() {
        let asked = SystemClock::ask().unwrap();
        let now = std::time::SystemTime::now()
            .duration_since(std::time::UNIX_EPOCH)
            .unwrap();
        assert!(
            (now.as_nanos() as i64 - asked.realtime_ns).abs() < 1_000_000_000,
            "{asked:?}"
        );
        let stamps = (Instant::from_ns(0), Instant::from_ns(900));
        let exchange =
            |clock: SystemClock| clock.exchange(Era::default(), stamps, Duration::from_s(37));
        let lost = SystemClock {
            synchronised: false,
            ..asked
        };
        assert_eq!(exchange(lost), Err(SystemClockError::Unsynchronised));
        let good = SystemClock {
            realtime_ns: 5,
            max_error: Duration::from_us(300),
            tai_offset_s: 0,
            synchronised: true,
        };
        for us in [0, 500, 16_000_000] {
            let silent = SystemClock {
                max_error: Duration::from_us(us),
                ..good
            };
            assert_eq!(exchange(silent), Err(SystemClockError::NoError));
        }
        let exchange = exchange(good).unwrap();
        assert_eq!(exchange.answered.as_ns(), 37_000_000_005);
        assert_eq!(exchange.root_dispersion, Duration::from_us(302));
    }
}
