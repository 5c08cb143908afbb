//! Setting of a timer, in the layout of the kernel's interfaces.

use crate::linux::remote::Plain;
use crate::timers::Setting;

/// Interval and value, each in seconds and in units of `UNIT_NS` nanoseconds.
#[derive(Clone, Copy)]
#[repr(transparent)]
pub(crate) struct Words<const UNIT_NS: i64>([i64; 4]);

/// Setting with nanoseconds: `struct itimerspec`.
pub(crate) type Itimerspec = Words<1>;

/// Setting with microseconds: `struct itimerval`.
pub(crate) type Itimerval = Words<1000>;

// SAFETY: the structure consists of numbers.
unsafe impl<const UNIT_NS: i64> Plain for Words<UNIT_NS> {}

impl<const UNIT_NS: i64> Words<UNIT_NS> {
    /// Converts to a setting.
    ///
    /// # Errors
    /// Fails with EINVAL for values that the kernel rejects.
    pub(super) fn setting(self) -> Result<Setting, i32> {
        let ns = |s: i64, part: i64| {
            let valid = s >= 0 && (0..NS_PER_S / UNIT_NS).contains(&part);
            valid
                .then(|| s.saturating_mul(NS_PER_S).saturating_add(part * UNIT_NS))
                .ok_or(libc::EINVAL)
        };
        let [interval_s, interval, value_s, value] = self.0;
        Ok(Setting {
            interval_ns: ns(interval_s, interval)?,
            value_ns: ns(value_s, value)?,
        })
    }
}

impl<const UNIT_NS: i64> From<Setting> for Words<UNIT_NS> {
    /// Converts a setting. Rounds up to the unit, so that an armed timer never reads as zero.
    fn from(setting: Setting) -> Self {
        let split = |ns: i64| {
            let units = ns / UNIT_NS + i64::from(ns % UNIT_NS > 0);
            let per_s = NS_PER_S / UNIT_NS;
            [units / per_s, units % per_s]
        };
        let [interval_s, interval] = split(setting.interval_ns);
        let [value_s, value] = split(setting.value_ns);
        Self([interval_s, interval, value_s, value])
    }
}

pub(super) const NS_PER_S: i64 = 1_000_000_000;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_armed_timer_never_reads_as_zero() {
        let setting = Setting {
            interval_ns: 0,
            value_ns: 1,
        };
        assert_eq!(Itimerspec::from(setting).0, [0, 0, 0, 1]);
        assert_eq!(Itimerval::from(setting).0, [0, 0, 0, 1]);
        let most = Setting {
            interval_ns: 1_000,
            value_ns: NS_PER_S - 1,
        };
        assert_eq!(Itimerval::from(most).0, [0, 1, 1, 0]);
    }

    #[test]
    fn timer_settings_invalid_for_the_kernel_are_refused() {
        for words in [[0, 0, -1, 0], [0, 0, 0, -1], [0, 1_000_000, 0, 0]] {
            assert_eq!(
                Words::<1000>(words).setting(),
                Err(libc::EINVAL),
                "{words:?}"
            );
        }
        let setting = Words::<1000>([1, 2, 3, 4]).setting();
        let expected = Setting {
            interval_ns: 1_000_002_000,
            value_ns: 3_000_004_000,
        };
        assert_eq!(setting, Ok(expected));
    }
}
