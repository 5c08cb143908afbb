//! Conversions between numbers whose ranges differ, each with a documented result.
//!
//! `as` makes such conversions without showing the intended result: the low bits, another sign, or
//! the nearest value of the range. The crates of words and models therefore have clippy's lints for
//! it, and use `From` and `TryFrom`, `cast_signed` and `cast_unsigned` of the standard library, and
//! these functions. None allocates; those that keep low bits or saturate a floating-point number compile
//! to the instructions of `as`.
//!
//! Integers become floating-point numbers by `as`: the result is the nearest double, which has 53
//! bits. Such numbers are means, shares, and quantities of models, never instants.

macro_rules! saturating {
    ($($name:ident $kind:ident,)*) => {$(
        #[doc = concat!("Returns `value` as `", stringify!($kind), "`, rounded towards zero; the")]
        /// nearest end of the range for values outside of it, and 0 for a value that is not a
        /// number.
        #[inline]
        #[must_use]
        #[allow(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "`as` from floating point saturates, as documented; not every kind has a sign"
        )]
        pub const fn $name(value: f64) -> $kind {
            value as $kind
        }
    )*};
}

saturating! {
    saturating_u16 u16,
    saturating_u32 u32,
    saturating_u64 u64,
    saturating_u128 u128,
    saturating_i64 i64,
}

/// Returns the lowest 8 bits.
#[inline]
#[must_use]
pub const fn low_u8(word: u64) -> u8 {
    (word & 0xff) as u8
}

/// Returns the lowest 16 bits.
#[inline]
#[must_use]
pub const fn low_u16(word: u64) -> u16 {
    (word & 0xffff) as u16
}

/// Returns the lowest 32 bits.
#[inline]
#[must_use]
pub const fn low_u32(word: u64) -> u32 {
    (word & 0xffff_ffff) as u32
}

/// Returns the lowest 64 bits.
#[inline]
#[must_use]
pub const fn low_u64(word: u128) -> u64 {
    (word & 0xffff_ffff_ffff_ffff) as u64
}

/// Returns the bits above the lowest 64: of a 64.64 fixed-point number, the whole part.
#[inline]
#[must_use]
pub const fn high_u64(word: u128) -> u64 {
    (word >> 64) as u64
}

/// Returns `value`, or the nearest end of the range of `i64`.
#[inline]
#[must_use]
pub const fn clamped_i64(value: i128) -> i64 {
    if value > i64::MAX as i128 {
        i64::MAX
    } else if value < i64::MIN as i128 {
        i64::MIN
    } else {
        low_u64(value.cast_unsigned()).cast_signed()
    }
}

/// Returns `value`, or `u64::MAX` for a greater one.
#[inline]
#[must_use]
pub const fn clamped_u64(value: u128) -> u64 {
    if value > u64::MAX as u128 {
        u64::MAX
    } else {
        low_u64(value)
    }
}

/// Returns a number of an element as an index.
#[inline]
#[must_use]
#[expect(
    clippy::cast_possible_truncation,
    reason = "addresses have 64 bits, as the assertion below holds"
)]
pub const fn index(number: u64) -> usize {
    number as usize
}

const _: () = assert!(usize::BITS == 64, "Timeloom needs addresses of 64 bits");

/// Returns the number of an element of a table that numbers its elements with 32 bits.
///
/// # Panics
///
/// If the table has more than 2^32 elements.
#[inline]
#[must_use]
#[track_caller]
pub const fn number_of(index: usize) -> u32 {
    assert!(
        index <= u32::MAX as usize,
        "a table has more than 2^32 elements"
    );
    low_u32(index as u64)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn floating_point_saturates_and_rounds_towards_zero() {
        assert_eq!(saturating_i64(-1.9), -1);
        assert_eq!(saturating_i64(1e300), i64::MAX);
        assert_eq!(saturating_i64(f64::NEG_INFINITY), i64::MIN);
        assert_eq!(saturating_i64(f64::NAN), 0);
        assert_eq!(saturating_u64(-0.5), 0);
        assert_eq!(saturating_u32(5e9), u32::MAX);
        assert_eq!(saturating_u16(65_535.9), u16::MAX);
    }

    #[test]
    fn integers_are_clamped_at_both_ends() {
        assert_eq!(clamped_i64(i128::MAX), i64::MAX);
        assert_eq!(clamped_i64(i128::MIN), i64::MIN);
        assert_eq!(clamped_u64(1 << 64), u64::MAX);
    }

    proptest! {
        #[test]
        fn numbers_in_range_are_kept(signed: i64, unsigned: u64, small: u32) {
            prop_assert_eq!(clamped_i64(i128::from(signed)), signed);
            prop_assert_eq!(clamped_u64(u128::from(unsigned)), unsigned);
            prop_assert_eq!(number_of(index(u64::from(small))), small);
        }

        #[test]
        fn halves_make_the_whole(word: u128) {
            prop_assert_eq!(u128::from(high_u64(word)) << 64 | u128::from(low_u64(word)), word);
            let half = low_u64(word);
            prop_assert_eq!(u64::from(low_u32(half >> 32)) << 32 | u64::from(low_u32(half)), half);
            let bytes = [u64::from(low_u16(half)), u64::from(low_u8(half))];
            prop_assert_eq!(bytes, [half % 65_536, half % 256]);
        }
    }

    #[test]
    #[should_panic(expected = "more than 2^32 elements")]
    fn a_table_has_no_more_rows_than_numbers() {
        let _ = number_of(1 << 32);
    }
}
