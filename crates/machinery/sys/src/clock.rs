//! The machine's clocks.

use std::io;

pub use rustix::time::ClockId;
use timeloom_time::{ClockMap, Duration, Instant, Utc, Wall};

/// Returns the present instant of the wall scale: CLOCK_MONOTONIC, in nanoseconds since boot.
///
/// All programs of a machine share this clock, and it is never set. The standard library's
/// `Instant` reads the same clock but does not expose the nanoseconds, which are needed to compare
/// the records of several programs.
#[inline]
pub fn wall_now() -> Instant<Wall> {
    Instant::from_ns(read_ns(ClockId::Monotonic))
}

/// Reads CLOCK_REALTIME, in nanoseconds since 1970.
#[inline]
pub fn realtime_ns() -> i64 {
    read_ns(ClockId::Realtime)
}

/// Returns the processor time used by the calling thread.
#[inline]
pub fn thread_time() -> Duration {
    Duration::from_ns(read_ns(ClockId::ThreadCPUTime))
}

/// Reads `clock` of the machine, in nanoseconds since that clock's zero. In a program that runs in
/// a session, this reads the host's virtual clock.
///
/// The function calls the C library, which uses the vDSO of the program's auxiliary vector.
/// `rustix` would look for the kernel's own vDSO.
#[inline]
pub fn read_ns(clock: ClockId) -> i64 {
    let mut now = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: the call writes a timespec to `now`. It cannot fail for a clock that has a name.
    unsafe { libc::clock_gettime(clock as libc::clockid_t, &raw mut now) };
    now.tv_sec * 1_000_000_000 + now.tv_nsec
}

/// Returns the length of the kernel's tick, the unit of its timers.
pub fn tick() -> Duration {
    let tick = rustix::time::clock_getres(ClockId::RealtimeCoarse);
    Duration::from_ns((tick.tv_sec * 1_000_000_000 + tick.tv_nsec).max(1))
}

/// Difference between civil time (CLOCK_REALTIME) and monotonic time (CLOCK_MONOTONIC), with its
/// error bound.
///
/// Linux steers both clocks by the same frequency, so their difference is constant until the civil
/// clock is set. The two cannot be read at once: the civil clock is read between two readings of
/// the monotonic one, and the error is half the time between those two readings.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CivilOffset {
    /// Civil time minus monotonic time.
    pub offset: Duration,
    /// Error bound. It does not hold if the civil clock was set between the readings.
    pub error: Duration,
}

impl CivilOffset {
    /// Measures the offset three times and returns the measurement with the smallest error, since a
    /// measurement may have been interrupted.
    pub fn measure() -> Self {
        let brackets: [Self; 3] = core::array::from_fn(|_| Self::bracket());
        brackets
            .into_iter()
            .min_by_key(|bracket| bracket.error)
            .expect("three brackets")
    }

    /// Measures the offset once, for callers that accept a coarse value.
    pub fn bracket() -> Self {
        let before_ns = read_ns(ClockId::Monotonic);
        let civil_ns = read_ns(ClockId::Realtime);
        let width_ns = read_ns(ClockId::Monotonic) - before_ns;
        Self {
            offset: Duration::from_ns(civil_ns - (before_ns + width_ns / 2)),
            // Rounded up, plus one for the kernel's own rounding.
            error: Duration::from_ns(width_ns / 2 + 2),
        }
    }

    /// Converts an instant of the civil clock to the wall scale.
    pub fn to_wall(&self, civil: Instant<Utc>) -> Instant<Wall> {
        ClockMap::ahead_by(-self.offset).at(civil)
    }

    /// Returns the step of the civil clock since the measurement `earlier`. Returns `None` if the
    /// difference is within the sum of both error bounds and `noise`.
    pub fn step_since(&self, earlier: &Self, noise: Duration) -> Option<Duration> {
        let moved = self.offset - earlier.offset;
        let bound = self.error + earlier.error + noise;
        (moved > bound || moved < -bound).then_some(moved)
    }
}

/// Steps the civil clock by `length`: forwards if it is positive, otherwise backwards.
///
/// # Errors
/// Fails without CAP_SYS_TIME.
pub fn step_civil(length: Duration) -> io::Result<()> {
    adjust(&mut step_request(length)).map(drop)
}

/// Returns the frequency correction of the civil clock, in parts per million multiplied by 2^16.
///
/// # Errors
/// Fails if the kernel refuses the query. No reason for that is known.
pub fn civil_frequency() -> io::Result<i64> {
    let mut request = blank();
    adjust(&mut request)?;
    Ok(request.freq)
}

/// Sets the frequency correction of the civil clock, in the unit of [`civil_frequency`]. The kernel
/// accepts at most 500 parts per million.
///
/// # Errors
/// Fails without CAP_SYS_TIME.
pub fn set_civil_frequency(scaled_ppm: i64) -> io::Result<()> {
    let mut request = blank();
    request.modes = libc::ADJ_FREQUENCY;
    request.freq = scaled_ppm;
    adjust(&mut request).map(drop)
}

/// State of the kernel's civil clock (adjtimex(2)).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CivilState {
    /// CLOCK_REALTIME, in nanoseconds since 1970.
    pub realtime_ns: i64,
    /// Maximum error, as set by the synchronisation program. The kernel has increased it since.
    pub max_error: Duration,
    /// TAI minus UTC in seconds; zero if it was never set.
    pub tai_offset_s: i32,
    /// True if the clock is synchronised and no leap second is in progress.
    pub synchronised: bool,
}

/// Reads the state of the kernel's civil clock; changes nothing.
/// # Errors
/// Fails if the kernel refuses, for which no reason is known.
pub fn civil_state() -> io::Result<CivilState> {
    let mut timex = blank();
    let state = adjust(&mut timex)?;
    let fraction = timex.time.tv_usec;
    let is_ns = timex.status & libc::STA_NANO != 0;
    let fraction_ns = if is_ns { fraction } else { fraction * 1_000 };
    Ok(CivilState {
        realtime_ns: timex.time.tv_sec * 1_000_000_000 + fraction_ns,
        max_error: Duration::from_us(timex.maxerror),
        tai_offset_s: timex.tai,
        synchronised: timex.status & libc::STA_UNSYNC == 0
            && state != libc::TIME_ERROR
            && state != libc::TIME_OOP,
    })
}

fn blank() -> libc::timex {
    // SAFETY: a timex consists of numbers, for which zero is a valid value; with `modes` zero
    // nothing is set.
    unsafe { core::mem::zeroed() }
}

fn adjust(request: &mut libc::timex) -> io::Result<libc::c_int> {
    // SAFETY: a complete timex, alive through the call.
    let state = unsafe { libc::adjtimex(request) };
    if state < 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(state)
}

/// Builds the request for a step. With ADJ_NANO the kernel reads `tv_usec` as nanoseconds. These
/// must not be negative, even if the seconds are.
fn step_request(length: Duration) -> libc::timex {
    let mut request = blank();
    request.modes = libc::ADJ_SETOFFSET | libc::ADJ_NANO;
    request.time.tv_sec = length.as_ns().div_euclid(1_000_000_000);
    request.time.tv_usec = length.as_ns().rem_euclid(1_000_000_000);
    request
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn civil_time_is_converted_within_its_error() {
        let offset = CivilOffset::measure();
        let before = wall_now();
        let converted = offset.to_wall(Instant::from_ns(realtime_ns()));
        let after = wall_now();
        assert!(
            converted >= before - offset.error,
            "{converted:?} {before:?}"
        );
        assert!(converted <= after + offset.error, "{converted:?} {after:?}");
    }

    #[test]
    fn a_step_is_told_from_noise() {
        let first = CivilOffset::measure();
        let second = CivilOffset::measure();
        let noise = Duration::from_us(2);
        assert_eq!(
            second.step_since(&first, noise),
            None,
            "the clock is not set"
        );
        let before = CivilOffset {
            offset: Duration::from_ms(5),
            error: Duration::from_ns(40),
        };
        let after = |by, error_ns| {
            let offset = before.offset + by;
            let error = Duration::from_ns(error_ns);
            CivilOffset { offset, error }.step_since(&before, noise)
        };
        let step = Duration::from_us(10);
        assert_eq!(after(Duration::from_ns(1_500), 40), None);
        assert_eq!(after(step, 40), Some(step));
        assert_eq!(after(-step, 40), Some(-step));
        assert_eq!(
            after(step, 50_000),
            None,
            "a coarse reading is no evidence of a step"
        );
    }

    #[test]
    fn the_kernel_is_asked_for_steps_with_a_fraction_from_zero_up() {
        let back = step_request(Duration::from_ns(-1));
        assert_eq!((back.time.tv_sec, back.time.tv_usec), (-1, 999_999_999));
        let on = step_request(Duration::from_ns(1_500_000_000));
        assert_eq!((on.time.tv_sec, on.time.tv_usec), (1, 500_000_000));
    }

    #[test]
    fn the_state_of_the_kernels_clock_agrees_with_its_readings() {
        let before_ns = realtime_ns();
        let state = civil_state().expect("reading needs no right");
        // Without STA_NANO the kernel counts microseconds.
        assert!((before_ns - 1_000..=realtime_ns()).contains(&state.realtime_ns));
        assert!(civil_frequency().expect("likewise").abs() <= 500 << 16);
    }
}
