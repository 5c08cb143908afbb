//! The system clock as a source: `adjtimex`, for any daemon, without privilege.

use timeloom_clock::Core;
use timeloom_clock::timeline::{Era, Exchange};
use timeloom_sys::clock::civil_state;
use timeloom_time::{Duration, Instant};

/// What the kernel says of CLOCK_REALTIME.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SystemClock {
    /// CLOCK_REALTIME, in nanoseconds since 1970.
    pub realtime_ns: i64,
    /// The kernel's bound of its error: what the daemon last gave it (half of the
    /// root delay plus the root dispersion, with chrony) and 500 ppm since.
    pub max_error: Duration,
    /// TAI minus UTC in seconds; 0 when nobody has told the kernel.
    pub tai_offset_s: i32,
    /// Whether a daemon vouches for the clock.
    pub synchronised: bool,
}

/// Why the system clock tells nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Unusable {
    /// No daemon vouches for it (STA_UNSYNC), or a leap second is in progress.
    #[error("no daemon vouches for the system clock")]
    Unsynchronised,
    /// The kernel does not know TAI, and the caller does not either.
    #[error(
        "the kernel does not know how far TAI is from UTC; say so (`--tai-offset-s 37`, or \
         tai_offset_s in the configuration)"
    )]
    NoTaiOffset,
    /// The system call failed; the error number.
    #[error("adjtimex: {}", std::io::Error::from_raw_os_error(*.0))]
    Failed(i32),
}

impl SystemClock {
    /// Asks the kernel; time and bound are of one instant. About a microsecond:
    /// for a keeper's poll, not for every read.
    ///
    /// # Errors
    /// [`Unusable::Failed`].
    pub fn ask() -> Result<Self, Unusable> {
        let state = civil_state()
            .map_err(|error| Unusable::Failed(error.raw_os_error().unwrap_or_default()))?;
        Ok(Self {
            realtime_ns: state.realtime_ns,
            max_error: state.max_error,
            tai_offset_s: state.tai_offset_s,
            synchronised: state.synchronised,
        })
    }

    /// What it tells a keeper of a TAI timeline, asked between two readings of
    /// the core clock. `tai_offset_s` is used when the kernel knows none.
    ///
    /// # Errors
    /// When it tells nothing.
    pub fn exchange(
        &self,
        era: Era,
        between: (Instant<Core>, Instant<Core>),
        tai_offset_s: Option<i32>,
    ) -> Result<Exchange, Unusable> {
        if !self.synchronised {
            return Err(Unusable::Unsynchronised);
        }
        let known = (self.tai_offset_s != 0).then_some(self.tai_offset_s);
        let offset_s = known.or(tai_offset_s).ok_or(Unusable::NoTaiOffset)?;
        let shows = Instant::from_ns(self.realtime_ns) + Duration::from_s(offset_s.into());
        // The kernel counts the bound in whole microseconds, and a
        // microsecond clock is cut to one.
        let error = self.max_error + Duration::from_us(2);
        Ok(Exchange::direct(era, between, shows, error))
    }
}

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
        let exchange = |clock: SystemClock, tai| clock.exchange(Era::default(), stamps, tai);
        let lost = SystemClock {
            synchronised: false,
            ..asked
        };
        assert_eq!(exchange(lost, Some(37)), Err(Unusable::Unsynchronised));
        let good = SystemClock {
            realtime_ns: 5,
            max_error: Duration::from_us(300),
            tai_offset_s: 0,
            synchronised: true,
        };
        assert_eq!(exchange(good, None), Err(Unusable::NoTaiOffset));
        let exchange = exchange(good, Some(37)).unwrap();
        assert_eq!(exchange.answered.as_ns(), 37_000_000_005);
        assert_eq!(exchange.root_dispersion, Duration::from_us(302));
    }
}
