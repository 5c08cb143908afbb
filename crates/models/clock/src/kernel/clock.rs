//! Clock around the discipline.

use timeloom_time::{Core, Duration, Instant, Rate, Utc};

use super::ntp::{FREQ_SCALE, Ntp, SCALE, USER_TICKS_PER_S};
use super::timex::{Errno, Timex, modes};
use crate::scale::Monotonic;

/// Start values of a clock.
#[derive(Clone, Copy, Debug)]
pub struct KernelClockOptions {
    /// CLOCK_MONOTONIC_RAW at the start.
    pub raw: Instant<Core>,
    /// CLOCK_MONOTONIC at the start.
    pub monotonic: Instant<Monotonic>,
    /// CLOCK_REALTIME at the start; not before `monotonic`, since no kernel has been up since
    /// before 1970.
    pub realtime: Instant<Utc>,
    /// TAI minus UTC in seconds.
    pub tai_s: i32,
    /// The kernel's ticks per second (CONFIG_HZ), which affects rounding.
    pub ticks_per_s: u32,
}

/// CLOCK_MONOTONIC as a line over CLOCK_MONOTONIC_RAW.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MonotonicLine {
    /// Start of the line.
    pub raw0: Instant<Core>,
    /// CLOCK_MONOTONIC at the start of the line, in units of 2^-32 ns.
    pub monotonic0_32: i128,
    /// Units of 2^-32 ns per raw second.
    pub per_s_32: i128,
}

impl MonotonicLine {
    /// Returns CLOCK_MONOTONIC at `raw`, rounded down.
    pub fn at(&self, raw: Instant<Core>) -> Instant<Monotonic> {
        Instant::from_ns((self.at_32(raw) >> SCALE) as i64)
    }

    /// Returns the nanoseconds per raw nanosecond.
    pub fn rate(&self) -> Rate {
        Rate::from_bits(((self.per_s_32 as u128) << SCALE) / NS_PER_S as u128)
    }

    fn at_32(&self, raw: Instant<Core>) -> i128 {
        let since_ns = i128::from(raw.as_ns()) - i128::from(self.raw0.as_ns());
        self.monotonic0_32 + (since_ns * self.per_s_32).div_euclid(i128::from(NS_PER_S))
    }

    /// Returns the first raw instant at which CLOCK_MONOTONIC is `monotonic_ns` or more.
    fn first_reaching(&self, monotonic_ns: i128) -> Instant<Core> {
        let missing = (monotonic_ns << SCALE) - self.monotonic0_32;
        let since = (missing * i128::from(NS_PER_S)).div_euclid(self.per_s_32);
        let mut raw = self.raw0 + Duration::from_ns(since as i64);
        while self.at_32(raw) < monotonic_ns << SCALE {
            raw += Duration::from_ns(1);
        }
        raw
    }
}

/// Result of a successful call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Adjusted {
    /// Return value of the call: one of [`super::state`].
    pub state: i32,
    /// True if REALTIME was stepped.
    pub stepped: bool,
}

/// CLOCK_MONOTONIC, CLOCK_REALTIME and CLOCK_TAI of one kernel, over its
/// CLOCK_MONOTONIC_RAW.
///
/// Every method takes `now` on the raw scale, which must never go back.
#[derive(Clone, Debug)]
pub struct KernelClock {
    ntp: Ntp,
    ticks_per_s: u32,
    line: MonotonicLine,
    /// REALTIME minus MONOTONIC.
    realtime_offset_ns: i64,
    /// Current second of REALTIME.
    second: i64,
    /// Number of steps and leap seconds so far.
    discontinuities: u64,
}

impl KernelClock {
    /// Returns an unsynchronised clock that runs at the rate of its oscillator.
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

    /// Returns the line in force since the last call that took an instant.
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

    /// Returns the number of discontinuities of REALTIME: steps and leap seconds.
    pub fn discontinuities(&self) -> u64 {
        self.discontinuities
    }

    /// Returns the instant at which the line or the offset may next change by itself.
    pub fn next_wake(&self) -> Option<Instant<Core>> {
        self.ntp.is_moving().then(|| self.next_second())
    }

    /// Begins all seconds up to `now`.
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

    /// `clock_settime(CLOCK_REALTIME)`: seconds and nanoseconds, not validated.
    ///
    /// # Errors
    /// Fails as the call does, with its checks in the same order.
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

    /// `adjtimex`. Fills `timex` unless it fails.
    ///
    /// # Errors
    /// Fails as the call does, with its checks in the same order; nothing has changed then.
    pub fn adjust(
        &mut self,
        now: Instant<Core>,
        timex: &mut Timex,
        privileged: bool,
    ) -> Result<Adjusted, Errno> {
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
            self.step_to(now, to as i64)?;
        }
        let realtime_ns = self.realtime_ns(now);
        let state = self.ntp.adjust(
            timex,
            realtime_ns.div_euclid(NS_PER_S),
            realtime_ns.rem_euclid(NS_PER_S),
        );
        self.begin_line(now);
        self.line.per_s_32 = self.per_s_32();
        Ok(Adjusted { state, stepped })
    }

    /// Moves CLOCK_MONOTONIC and CLOCK_REALTIME forward by `ahead`: the effect of a change of rate
    /// that came late.
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

    /// Returns the start of the next second of REALTIME.
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

/// Carries out the kernel's checks before a change.
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
/// The kernel leaves thirty years until its 64-bit nanoseconds end.
const MOST_SETTABLE_S: i64 = i64::MAX / NS_PER_S - 30 * 365 * 86_400;
