//! The kernel's NTP discipline, which computes the length of each second.
//!
//! All lengths are in units of 2^-32 ns per tick, as in the kernel, because the kernel's rounding
//! errors are visible in the results of `adjtimex`.

use timeloom_time::convert::clamped_i64;

use super::timex::{Timex, modes, state, status};

/// State of the NTP discipline of one kernel.
#[derive(Clone, Debug)]
pub(super) struct Ntp {
    ticks_per_s: i64,
    tick_us: i64,
    /// Length of a tick in the present second, in units of 2^-32 ns.
    pub(super) tick_length: i64,
    base_length: i64,
    leap: i32,
    /// Second of CLOCK_REALTIME at which the pending leap second takes effect.
    next_leap_s: i64,
    status: i32,
    offset: i64,
    constant: i64,
    max_error_us: i64,
    est_error_us: i64,
    freq: i64,
    reference_s: i64,
    /// Remaining slew of adjtime(3), in µs.
    slew_us: i64,
    pub(super) tai_s: i32,
}

impl Ntp {
    pub(super) fn new(ticks_per_s: u32, tai_s: i32) -> Self {
        let mut ntp = Self {
            ticks_per_s: i64::from(ticks_per_s),
            tick_us: 10_000,
            tick_length: 0,
            base_length: 0,
            leap: state::OK,
            next_leap_s: i64::MAX,
            status: status::UNSYNC,
            offset: 0,
            constant: 2,
            max_error_us: PHASE_LIMIT_US,
            est_error_us: PHASE_LIMIT_US,
            freq: 0,
            reference_s: 0,
            slew_us: 0,
            tai_s,
        };
        ntp.clear();
        ntp
    }

    /// Resets the discipline after a step of the clock, because earlier measurements are no longer
    /// valid.
    pub(super) fn clear(&mut self) {
        self.slew_us = 0;
        self.status |= status::UNSYNC;
        self.max_error_us = PHASE_LIMIT_US;
        self.est_error_us = PHASE_LIMIT_US;
        self.update_frequency();
        self.tick_length = self.base_length;
        self.offset = 0;
        self.next_leap_s = i64::MAX;
    }

    /// Returns true if the length of a second, or the number of the second, may change at the next
    /// second without a call.
    pub(super) fn is_moving(&self) -> bool {
        self.tick_length != self.base_length
            || self.slew_us != 0
            || shift_right(self.offset, self.decay_shift()) != 0
            || self.leap != state::OK
            || self.status & (status::INS | status::DEL) != 0
    }

    /// Begins second number `second` of CLOCK_REALTIME. Returns the seconds that a leap second adds
    /// to that number: −1, 0 or 1.
    pub(super) fn begin_second(&mut self, second: i64) -> i64 {
        let leap = self.advance_leap(second);
        self.max_error_us += MAX_FREQUENCY_NS / 1000;
        if self.max_error_us > PHASE_LIMIT_US {
            self.max_error_us = PHASE_LIMIT_US;
            self.status |= status::UNSYNC;
        }
        let chunk = shift_right(self.offset, self.decay_shift());
        self.offset -= chunk;
        self.tick_length = self.base_length + chunk;
        let step_us = self.slew_us.clamp(-MAX_SLEW_US, MAX_SLEW_US);
        if self.slew_us.unsigned_abs() > MAX_SLEW_US.unsigned_abs() {
            let most = ((MAX_SLEW_US * 1000) << SCALE) / self.ticks_per_s;
            self.tick_length += step_us.signum() * most;
        } else {
            // The share of one tick is rounded to whole nanoseconds here, as in the kernel.
            self.tick_length += (step_us * 1000 / self.ticks_per_s) << SCALE;
        }
        self.slew_us -= step_us;
        leap
    }

    fn advance_leap(&mut self, second: i64) -> i64 {
        let next_midnight = |after: i64| after - after.rem_euclid(DAY_S) + DAY_S;
        match self.leap {
            state::OK if self.status & status::INS != 0 => {
                self.leap = state::INS;
                self.next_leap_s = next_midnight(second);
            }
            state::OK if self.status & status::DEL != 0 => {
                self.leap = state::DEL;
                self.next_leap_s = next_midnight(second + 1) - 1;
            }
            state::INS if self.status & status::INS == 0 => self.withdraw_leap(),
            state::INS if second == self.next_leap_s => {
                self.leap = state::OOP;
                self.tai_s += 1;
                return -1;
            }
            state::DEL if self.status & status::DEL == 0 => self.withdraw_leap(),
            state::DEL if second == self.next_leap_s => {
                self.next_leap_s = i64::MAX;
                self.leap = state::WAIT;
                self.tai_s -= 1;
                return 1;
            }
            state::OOP => {
                self.next_leap_s = i64::MAX;
                self.leap = state::WAIT;
            }
            state::WAIT if self.status & (status::INS | status::DEL) == 0 => {
                self.leap = state::OK;
            }
            _ => {}
        }
        0
    }

    fn withdraw_leap(&mut self) {
        self.next_leap_s = i64::MAX;
        self.leap = state::OK;
    }

    /// Carries out the part of `adjtimex` that concerns the discipline; the arguments have been
    /// checked. `now_s` and `now_part_ns` are CLOCK_REALTIME. Fills `timex` and returns the system
    /// call's value.
    pub(super) fn adjust(&mut self, timex: &mut Timex, now_s: i64, now_part_ns: i64) -> i32 {
        if timex.modes & modes::ADJTIME != 0 {
            let before = self.slew_us;
            if timex.modes & modes::OFFSET_READONLY == 0 {
                self.slew_us = timex.offset;
                self.update_frequency();
            }
            timex.offset = before;
        } else {
            if timex.modes != 0 {
                self.change(timex, now_s);
            }
            let offset = self.offset.wrapping_mul(self.ticks_per_s);
            timex.offset = shift_right(offset, SCALE);
            if self.status & status::NANO == 0 {
                timex.offset /= 1000;
            }
        }
        let mut result = self.leap;
        if self.status & (status::UNSYNC | status::CLOCKERR) != 0 {
            result = state::ERROR;
        }
        // The inverse of the scale is rounded up, so that a frequency that was set in whole units
        // is read back unchanged.
        let inverse = (1i128 << (FREQ_INVERSE_SHIFT + SCALE)) / i128::from(FREQ_SCALE) + 1;
        let freq = i128::from(self.freq >> FREQ_INVERSE_SHIFT) * inverse;
        timex.freq = shift_right(clamped_i64(freq), SCALE);
        timex.maxerror = self.max_error_us;
        timex.esterror = self.est_error_us;
        timex.status = self.status;
        timex.constant = self.constant;
        timex.precision = 1;
        timex.tolerance = (MAX_FREQUENCY_NS << SCALE) / FREQ_SCALE;
        timex.tick = self.tick_us;
        timex.tai = self.tai_s;
        timex.time_s = now_s;
        timex.time_part = now_part_ns;
        if self.status & status::NANO == 0 {
            timex.time_part /= 1000;
        }
        self.look_at_leap(timex, now_s, result)
    }

    /// Corrects the result for a leap second that is due but not in the count of seconds yet. A
    /// real kernel counts seconds at its ticks, so all cases of the correction occur in it. This
    /// model counts a second when it begins, so only the case of the state OOP can occur.
    fn look_at_leap(&self, timex: &mut Timex, now_s: i64, result: i32) -> i32 {
        if now_s < self.next_leap_s {
            return result;
        }
        match self.leap {
            state::INS if self.status & status::INS != 0 => {
                timex.tai += 1;
                timex.time_s -= 1;
                state::OOP
            }
            state::DEL if self.status & status::DEL != 0 => {
                timex.tai -= 1;
                timex.time_s += 1;
                state::WAIT
            }
            state::OOP if now_s == self.next_leap_s => state::WAIT,
            _ => result,
        }
    }

    fn change(&mut self, timex: &Timex, now_s: i64) {
        let asked = |mode: u32| timex.modes & mode != 0;
        if asked(modes::STATUS) {
            self.change_status(timex.status, now_s);
        }
        if asked(modes::NANO) {
            self.status |= status::NANO;
        }
        if asked(modes::MICRO) {
            self.status &= !status::NANO;
        }
        if asked(modes::FREQUENCY) {
            self.freq = (timex.freq * FREQ_SCALE).clamp(-MAX_FREQ, MAX_FREQ);
        }
        if asked(modes::MAXERROR) {
            self.max_error_us = timex.maxerror.clamp(0, PHASE_LIMIT_US);
        }
        if asked(modes::ESTERROR) {
            self.est_error_us = timex.esterror.clamp(0, PHASE_LIMIT_US);
        }
        if asked(modes::TIMECONST) {
            let nano = self.status & status::NANO != 0;
            let constant = timex.constant.clamp(0, MAX_CONSTANT);
            self.constant = (constant + if nano { 0 } else { 4 }).min(MAX_CONSTANT);
        }
        if asked(modes::TAI)
            && (0..=MAX_TAI_S).contains(&timex.constant)
            && let Ok(tai_s) = i32::try_from(timex.constant)
        {
            self.tai_s = tai_s;
        }
        if asked(modes::OFFSET) {
            self.update_offset(timex.offset, now_s);
        }
        if asked(modes::TICK) {
            self.tick_us = timex.tick;
        }
        if asked(modes::TICK | modes::FREQUENCY | modes::OFFSET) {
            self.update_frequency();
        }
    }

    fn change_status(&mut self, wanted: i32, now_s: i64) {
        if self.status & status::PLL != 0 && wanted & status::PLL == 0 {
            self.leap = state::OK;
            self.status = status::UNSYNC;
            self.next_leap_s = i64::MAX;
        }
        if self.status & status::PLL == 0 && wanted & status::PLL != 0 {
            self.reference_s = now_s;
        }
        self.status &= status::READ_ONLY;
        self.status |= wanted & !status::READ_ONLY;
    }

    /// Updates the loop filter with a new phase offset.
    fn update_offset(&mut self, offset: i64, now_s: i64) {
        if self.status & status::PLL == 0 {
            return;
        }
        let offset_ns = if self.status & status::NANO == 0 {
            offset.clamp(-1_000_000, 1_000_000) * 1000
        } else {
            offset
        }
        .clamp(-MAX_PHASE_NS, MAX_PHASE_NS);
        let mut since_s = now_s - self.reference_s;
        if self.status & status::FREQHOLD != 0 {
            since_s = 0;
        }
        self.reference_s = now_s;
        let mut change = self.frequency_locked(offset_ns, since_s);
        since_s = since_s.min(1 << (SHIFT_PLL + 1 + self.constant));
        change += (offset_ns * since_s) << (i64::from(SCALE) - 2 * (SHIFT_PLL + 2 + self.constant));
        self.freq = (change + self.freq).clamp(-MAX_FREQ, MAX_FREQ);
        self.offset = (offset_ns << SCALE) / self.ticks_per_s;
    }

    fn frequency_locked(&mut self, offset_ns: i64, since_s: i64) -> i64 {
        self.status &= !status::MODE;
        let wanted = self.status & status::FLL != 0;
        if since_s < MIN_SINCE_S || (!wanted && since_s <= MAX_SINCE_S) {
            return 0;
        }
        self.status |= status::MODE;
        (offset_ns << (SCALE - SHIFT_FLL)) / since_s
    }

    fn update_frequency(&mut self) {
        let second = ((self.tick_us * 1000 * USER_TICKS_PER_S) << SCALE) + self.freq;
        let base = second / self.ticks_per_s;
        self.tick_length += base - self.base_length;
        self.base_length = base;
    }

    fn decay_shift(&self) -> u32 {
        u32::try_from(SHIFT_PLL + self.constant).expect("a time constant is not negative")
    }
}

/// Shifts right and rounds towards zero.
fn shift_right(value: i64, by: u32) -> i64 {
    if value < 0 {
        -(-value >> by)
    } else {
        value >> by
    }
}

/// Number of fractional bits of a nanosecond.
pub(super) const SCALE: u32 = 32;
const SHIFT_PLL: i64 = 2;
const SHIFT_FLL: u32 = 2;
const MAX_CONSTANT: i64 = 10;
const MAX_PHASE_NS: i64 = 500_000_000;
const MAX_FREQUENCY_NS: i64 = 500_000;
const MAX_FREQ: i64 = MAX_FREQUENCY_NS << SCALE;
const MIN_SINCE_S: i64 = 256;
const MAX_SINCE_S: i64 = 2048;
const MAX_SLEW_US: i64 = 500;
const MAX_TAI_S: i64 = 100_000;
/// Error bound (16 s) above which a clock counts as unsynchronised.
const PHASE_LIMIT_US: i64 = (MAX_PHASE_NS / 1000) << 5;
/// Conversion factor of `timex.freq`: from ppm with 16 fractional bits to ns/s with 32.
pub(super) const FREQ_SCALE: i64 = 1000 << (SCALE - 16);
const FREQ_INVERSE_SHIFT: u32 = 19;
pub(super) const USER_TICKS_PER_S: i64 = 100;
const DAY_S: i64 = 86_400;
