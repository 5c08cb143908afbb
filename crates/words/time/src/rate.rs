//! The rate of one clock relative to another.

use crate::convert::{clamped_u64, saturating_u64, saturating_u128};

/// Units of one clock per unit of another, as a non-negative 64.64 fixed-point number. The
/// resolution is 2^-64, which makes an error below 0.02 ns in a day at 3 GHz.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Rate(u128);

impl Rate {
    /// Rate 0, of a stopped clock.
    pub const STOPPED: Self = Self(0);
    /// Rate 1: both clocks advance equally.
    pub const ONE: Self = Self(1 << 64);

    /// Returns the quotient `num / den`, rounded down to a multiple of 2^-64; `None` if `den` is 0.
    pub const fn from_ratio(num: u64, den: u64) -> Option<Self> {
        if den == 0 {
            return None;
        }
        let whole = num / den;
        let rest = ((num % den) as u128) << 64;
        Some(Self(((whole as u128) << 64) + rest / den as u128))
    }

    /// Converts a decimal factor, such as a dilation given by the user. Returns `None` unless
    /// `value` is 0 or within 2^-32 … 2^32.
    pub fn from_f64(value: f64) -> Option<Self> {
        const LIMIT: f64 = (1u64 << 32) as f64;
        if value == 0.0 {
            return Some(Self::STOPPED);
        }
        if !(1.0 / LIMIT..=LIMIT).contains(&value) {
            return None;
        }
        // The conversion is exact: a double has 53 significant bits, and both halves have 64.
        let whole = saturating_u64(value);
        let fraction = (value - whole as f64) * TWO_64;
        Some(Self((u128::from(whole) << 64) + saturating_u128(fraction)))
    }

    /// Returns the rate as a double, for display.
    pub fn as_f64(self) -> f64 {
        self.0 as f64 / TWO_64
    }

    /// Returns `1 / self`; `None` for a stopped clock.
    pub const fn inverse(self) -> Option<Self> {
        if self.0 == 0 {
            return None;
        }
        // Computes 2^128 / x without 129-bit numbers. (2^128 - 1) / x differs from it only if x
        // divides 2^128, that is, if x is a power of two.
        let quotient = u128::MAX / self.0;
        Some(Self(if self.0.is_power_of_two() {
            quotient.wrapping_add(1)
        } else {
            quotient
        }))
    }

    /// Returns `self * other`, rounded down; saturates.
    pub const fn times(self, other: Self) -> Self {
        let (ah, al) = (self.0 >> 64, self.0 & MASK);
        let (bh, bl) = (other.0 >> 64, other.0 & MASK);
        let high = match (ah * bh).checked_mul(1 << 64) {
            Some(high) => high,
            None => return Self(u128::MAX),
        };
        Self(
            high.saturating_add(ah * bl)
                .saturating_add(al * bh)
                .saturating_add((al * bl) >> 64),
        )
    }

    /// Returns `floor(self * units)`; saturates at `u64::MAX`.
    pub const fn apply(self, units: u64) -> u64 {
        let whole = (self.0 >> 64).saturating_mul(units as u128);
        let part = ((self.0 & MASK) * units as u128) >> 64;
        let sum = whole.saturating_add(part);
        clamped_u64(sum)
    }

    /// Returns the least `n` with `apply(n) >= units`; `None` for a stopped clock or if `n` would
    /// exceed `u64::MAX`.
    pub const fn units_until(self, units: u64) -> Option<u64> {
        if units == 0 {
            return Some(0);
        }
        if self.0 == 0 {
            return None;
        }
        let n = ((units as u128) << 64).div_ceil(self.0);
        if n > u64::MAX as u128 {
            None
        } else {
            Some(clamped_u64(n))
        }
    }

    /// Returns true if the clock is stopped.
    pub const fn is_stopped(self) -> bool {
        self.0 == 0
    }

    /// Returns the rate as its 64.64 bits, the form that is stored in shared memory.
    pub const fn to_bits(self) -> u128 {
        self.0
    }

    /// Returns the rate with these 64.64 bits.
    pub const fn from_bits(bits: u128) -> Self {
        Self(bits)
    }
}

const MASK: u128 = u64::MAX as u128;

/// 2^64 as a double. `powi` is part of std, and this crate is `no_std`.
const TWO_64: f64 = 18_446_744_073_709_551_616.0;

impl core::fmt::Debug for Rate {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        write!(f, "{}", self.as_f64())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn units_until_is_the_least_that_reaches(num in 1u64..u32::MAX as u64, den in 1u64..u32::MAX as u64, units in 0u64..1 << 40) {
            let rate = Rate::from_ratio(num, den).unwrap();
            let n = rate.units_until(units).unwrap();
            prop_assert!(rate.apply(n) >= units);
            prop_assert!(n == 0 || rate.apply(n - 1) < units);
        }

        #[test]
        fn apply_is_exact_floor_for_whole_ratios(units in 0u64..1 << 40, factor in 1u64..1 << 20) {
            prop_assert_eq!(Rate::from_ratio(factor, 1).unwrap().apply(units), units * factor);
        }

        #[test]
        fn inverse_undoes_to_a_part_in_2_to_30(num in 1u64..1 << 16, den in 1u64..1 << 16) {
            let rate = Rate::from_ratio(num, den).unwrap();
            let product = rate.times(rate.inverse().unwrap()).as_f64();
            prop_assert!((product - 1.0).abs() < 1e-9, "{product}");
        }
    }

    #[test]
    fn a_dilation_of_ten_is_a_tenth() {
        let slow = Rate::from_f64(10.0).unwrap().inverse().unwrap();
        assert_eq!(slow.apply(1_000_000_000), 99_999_999); // rounded down: never ahead
        assert_eq!(slow.units_until(100_000_000), Some(1_000_000_001));
        assert_eq!(Rate::ONE.inverse(), Some(Rate::ONE));
    }

    #[test]
    fn absurd_factors_are_refused() {
        for bad in [f64::NAN, f64::INFINITY, -1.0, 1e-20, 1e20] {
            assert_eq!(Rate::from_f64(bad), None, "{bad}");
        }
        assert_eq!(Rate::from_ratio(1, 0), None);
    }
}
