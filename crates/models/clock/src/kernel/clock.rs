//! The kernel's clocks, whose rate and steps the NTP discipline determines.

use timeloom_time::convert::clamped_i64;
use timeloom_time::{Core, Duration, Instant, Rate, Utc};

use super::ntp::{FREQ_SCALE, Ntp, SCALE, USER_TICKS_PER_S};
use super::timex::{Errno, Timex, modes};
use crate::scale::Monotonic;

/// Initial values of a kernel's clocks.
#[derive(Clone, Copy, Debug)]
pub struct KernelClockOptions {
    /// Initial value of CLOCK_MONOTONIC_RAW.
    pub raw: Instant<Core>,
    /// Initial value of CLOCK_MONOTONIC.
    pub monotonic: Instant<Monotonic>,
    /// Initial value of CLOCK_REALTIME. It must not be before `monotonic`, since no kernel has been
    /// running since before 1970.
    pub realtime: Instant<Utc>,
    /// TAI minus UTC, in seconds.
    pub tai_s: i32,
    /// Timer ticks per second (CONFIG_HZ); affects the rounding of rates.
    pub ticks_per_s: u32,
}

/// CLOCK_MONOTONIC as a linear function of CLOCK_MONOTONIC_RAW.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MonotonicLine {
    /// CLOCK_MONOTONIC_RAW at the start of the line.
    pub raw0: Instant<Core>,
    /// CLOCK_MONOTONIC at the start of the line, in units of 2^-32 ns.
    pub monotonic0_32: i128,
    /// Slope: units of 2^-32 ns of CLOCK_MONOTONIC per second of CLOCK_MONOTONIC_RAW.
    pub per_s_32: i128,
}

impl MonotonicLine {
    /// Returns CLOCK_MONOTONIC when CLOCK_MONOTONIC_RAW is `raw`, rounded down.
    pub fn at(&self, raw: Instant<Core>) -> Instant<Monotonic> {
        Instant::from_ns(clamped_i64(self.at_32(raw) >> SCALE))
    }

    /// Returns the nanoseconds of CLOCK_MONOTONIC per nanosecond of CLOCK_MONOTONIC_RAW.
    pub fn rate(&self) -> Rate {
        Rate::from_bits(
            (self.per_s_32.unsigned_abs() << SCALE) / u128::from(NS_PER_S.unsigned_abs()),
        )
    }

    fn at_32(&self, raw: Instant<Core>) -> i128 {
        let since_ns = i128::from(raw.as_ns()) - i128::from(self.raw0.as_ns());
        self.monotonic0_32 + (since_ns * self.per_s_32).div_euclid(i128::from(NS_PER_S))
    }

    /// Returns the first raw instant at which CLOCK_MONOTONIC is `monotonic_ns` or more.
    fn first_reaching(&self, monotonic_ns: i128) -> Instant<Core> {
        let missing = (monotonic_ns << SCALE) - self.monotonic0_32;
        let since = (missing * i128::from(NS_PER_S)).div_euclid(self.per_s_32);
        let mut raw = self.raw0 + Duration::from_ns(clamped_i64(since));
        while self.at_32(raw) < monotonic_ns << SCALE {
            raw += Duration::from_ns(1);
        }
        raw
    }
}

/// Result of a successful `adjtimex`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Adjustment {
    /// Return value of the system call: one of [`super::state`].
    pub state: i32,
    /// True if the call stepped CLOCK_REALTIME.
    pub stepped: bool,
}

/// CLOCK_MONOTONIC, CLOCK_REALTIME and CLOCK_TAI of one kernel, as functions of its
/// CLOCK_MONOTONIC_RAW.
///
/// The argument `now` of every method is CLOCK_MONOTONIC_RAW, and must never decrease.
#[derive(Clone, Debug)]
pub struct KernelClock {
    ntp: Ntp,
    ticks_per_s: u32,
    line: MonotonicLine,
    /// CLOCK_REALTIME minus CLOCK_MONOTONIC.
    realtime_offset_ns: i64,
    /// Present second of CLOCK_REALTIME.
    second: i64,
    /// Number of steps and leap seconds of CLOCK_REALTIME so far.
    discontinuities: u64,
}

impl KernelClock {
    /// Returns unsynchronised clocks that run at the rate of CLOCK_MONOTONIC_RAW.
    pub fn new(options: &KernelClockOptions) -> Self {
        let ntp = Ntp::new(options.ticks_per_s, options.tai_s);
        let mut clock = Self {
            ticks_per_s: options.ticks_per_s,
            line: MonotonicLine {
                raw0: options.raw,
                monotonic0_32: i128::from(options.monotonic.as_ns()) << SCALE,
                per_s_32: 0,
            },
            realtime_offset_ns: options.realtime.as_ns() - options.monotonic.as_ns(),
            second: options.realtime.as_ns().div_euclid(NS_PER_S),
            discontinuities: 0,
            ntp,
        };
        clock.line.per_s_32 = clock.per_s_32();
        clock
    }

    /// Returns CLOCK_MONOTONIC as a line, as of the last call with an argument `now`.
    pub fn line(&self) -> MonotonicLine {
        self.line
    }

    /// Returns CLOCK_REALTIME minus CLOCK_MONOTONIC.
    pub fn realtime_ahead(&self) -> Duration {
        Duration::from_ns(self.realtime_offset_ns)
    }

    /// Returns CLOCK_TAI minus CLOCK_MONOTONIC.
    pub fn tai_ahead(&self) -> Duration {
        self.realtime_ahead() + Duration::from_s(self.ntp.tai_s.into())
    }

    /// Returns the number of steps and leap seconds of CLOCK_REALTIME so far.
    pub fn discontinuities(&self) -> u64 {
        self.discontinuities
    }

    /// Returns the raw instant at which the line or the offset may next change without a call;
    /// `None` for never.
    pub fn next_wake(&self) -> Option<Instant<Core>> {
        self.ntp.is_moving().then(|| self.next_second())
    }

    /// Processes the beginnings of all seconds of CLOCK_REALTIME up to `now`.
    pub fn advance(&mut self, now: Instant<Core>) {
        loop {
            let at = self.next_second();
            if at > now {
                return;
            }
            self.begin_line(at);
            self.second += 1;
            let leap = self.ntp.begin_second(self.second);
            if leap != 0 {
                self.second += leap;
                self.realtime_offset_ns += leap * NS_PER_S;
                self.discontinuities += 1;
            }
            self.line.per_s_32 = self.per_s_32();
        }
    }

    /// Executes `clock_settime(CLOCK_REALTIME)`. The arguments are seconds and nanoseconds as a
    /// program passed them.
    ///
    /// # Errors
    /// Fails with the error of the system call. The checks are made in the kernel's order.
    pub fn set(
        &mut self,
        now: Instant<Core>,
        s: i64,
        part_ns: i64,
        privileged: bool,
    ) -> Result<(), Errno> {
        if s < 0 || !(0..NS_PER_S).contains(&part_ns) || s >= MOST_SETTABLE_S {
            return Err(Errno::Invalid);
        }
        if !privileged {
            return Err(Errno::NotPermitted);
        }
        self.advance(now);
        self.step_to(now, s * NS_PER_S + part_ns)
    }

    /// Executes `adjtimex`, and fills `timex` if the call succeeds.
    ///
    /// # Errors
    /// Fails with the error of the system call, and changes nothing. The checks are made in the
    /// kernel's order.
    pub fn adjust(
        &mut self,
        now: Instant<Core>,
        timex: &mut Timex,
        privileged: bool,
    ) -> Result<Adjustment, Errno> {
        validate(timex, privileged)?;
        self.advance(now);
        let stepped = timex.modes & modes::SETOFFSET != 0;
        if stepped {
            let unit_ns = if timex.modes & modes::NANO == 0 {
                1000
            } else {
                1
            };
            let by = i128::from(timex.time_s) * i128::from(NS_PER_S)
                + i128::from(timex.time_part * unit_ns);
            let to = i128::from(self.realtime_ns(now)) + by;
            let settable = 0..i128::from(MOST_SETTABLE_S) * i128::from(NS_PER_S);
            if !settable.contains(&to) {
                return Err(Errno::Invalid);
            }
            self.step_to(now, clamped_i64(to))?;
        }
        let realtime_ns = self.realtime_ns(now);
        let state = self.ntp.adjust(
            timex,
            realtime_ns.div_euclid(NS_PER_S),
            realtime_ns.rem_euclid(NS_PER_S),
        );
        self.begin_line(now);
        self.line.per_s_32 = self.per_s_32();
        Ok(Adjustment { state, stepped })
    }

    /// Moves CLOCK_MONOTONIC and CLOCK_REALTIME forward by `ahead`, the lead that readers saw
    /// because a change of rate took effect late.
    pub fn absorb(&mut self, now: Instant<Core>, ahead: Duration) {
        self.advance(now);
        self.begin_line(now);
        self.line.monotonic0_32 += i128::from(ahead.as_ns()) << SCALE;
        self.advance(now);
    }

    fn step_to(&mut self, now: Instant<Core>, realtime_ns: i64) -> Result<(), Errno> {
        let monotonic_ns = self.line.at(now).as_ns();
        if realtime_ns < monotonic_ns {
            return Err(Errno::Invalid); // the machine was up before 1970
        }
        self.realtime_offset_ns = realtime_ns - monotonic_ns;
        self.second = realtime_ns.div_euclid(NS_PER_S);
        self.discontinuities += 1;
        self.ntp.clear();
        self.begin_line(now);
        self.line.per_s_32 = self.per_s_32();
        Ok(())
    }

    fn realtime_ns(&self, now: Instant<Core>) -> i64 {
        self.line.at(now).as_ns() + self.realtime_offset_ns
    }

    /// Returns the raw instant at which the next second of CLOCK_REALTIME begins.
    fn next_second(&self) -> Instant<Core> {
        let realtime_ns = i128::from(self.second + 1) * i128::from(NS_PER_S);
        self.line
            .first_reaching(realtime_ns - i128::from(self.realtime_offset_ns))
    }

    fn begin_line(&mut self, at: Instant<Core>) {
        self.line.monotonic0_32 = self.line.at_32(at);
        self.line.raw0 = at;
    }

    fn per_s_32(&self) -> i128 {
        i128::from(self.ntp.tick_length) * i128::from(self.ticks_per_s)
    }
}

/// Checks the arguments of `adjtimex` as the kernel does.
fn validate(timex: &Timex, privileged: bool) -> Result<(), Errno> {
    let asked = |mode: u32| timex.modes & mode != 0;
    let permitted = privileged.then_some(()).ok_or(Errno::NotPermitted);
    if asked(modes::ADJTIME) {
        if !asked(modes::OFFSET) {
            return Err(Errno::Invalid);
        }
        if !asked(modes::OFFSET_READONLY) {
            permitted?;
        }
    } else {
        if timex.modes != 0 {
            permitted?;
        }
        let ticks = 900_000 / USER_TICKS_PER_S..=1_100_000 / USER_TICKS_PER_S;
        if asked(modes::TICK) && !ticks.contains(&timex.tick) {
            return Err(Errno::Invalid);
        }
    }
    if asked(modes::SETOFFSET) {
        permitted?;
        let most = if asked(modes::NANO) {
            NS_PER_S
        } else {
            1_000_000
        };
        if !(0..most).contains(&timex.time_part) {
            return Err(Errno::Invalid);
        }
    }
    let representable = i64::MIN / FREQ_SCALE..=i64::MAX / FREQ_SCALE;
    if asked(modes::FREQUENCY) && !representable.contains(&timex.freq) {
        return Err(Errno::Invalid);
    }
    Ok(())
}

const NS_PER_S: i64 = 1_000_000_000;
/// Greatest second to which the clock can be set. The kernel stays thirty years below the end of
/// its 64-bit nanoseconds.
const MOST_SETTABLE_S: i64 = i64::MAX / NS_PER_S - 30 * 365 * 86_400;
