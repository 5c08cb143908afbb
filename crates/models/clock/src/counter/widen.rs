//! Extension of a narrow counter to 63 bits.

/// Extends an n-bit counter to 63 bits, as the kernel's `cnt32_to_63` does for the paper's CCNT
/// (section 3.1). At 1 GHz, 32 bits wrap every 4.3 s.
///
/// The counter must be extended at least twice per wrap (in the paper, the scheduler does so). A
/// value up to half a wrap *behind* the last one is taken for an earlier reading of another
/// context, not for a wrap: the count for it is less, and the state does not change.
#[derive(Clone, Copy, Debug)]
pub struct Widener {
    last: u64,
    unused_bits: u32,
}

impl Widener {
    /// Returns the state for a counter of `width_bits` bits with the present value `raw`.
    ///
    /// # Panics
    /// Panics if `width_bits` is not 2 … 64.
    pub fn new(raw: u64, width_bits: u32) -> Self {
        assert!(
            (2..=64).contains(&width_bits),
            "a counter of {width_bits} bits"
        );
        let unused_bits = 64 - width_bits;
        Self {
            last: (raw << unused_bits) >> unused_bits,
            unused_bits,
        }
    }

    /// Returns the 63-bit count for `raw`, the counter's present value.
    pub fn extend(&mut self, raw: u64) -> u64 {
        let count = self.peek(raw);
        self.last = self.last.max(count);
        count
    }

    /// Returns the same count as [`Self::extend`] without changing the state.
    pub fn peek(&self, raw: u64) -> u64 {
        // Shifted to the top of the word, the difference of two n-bit numbers wraps as an i64 does.
        // The arithmetic shift back then extends its sign.
        let moved = raw.wrapping_sub(self.last) << self.unused_bits;
        let step = moved.cast_signed() >> self.unused_bits;
        self.last.saturating_add_signed(step) & (u64::MAX >> 1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn follows_a_narrow_counter_over_any_wraps(
            width in 8u32..=64, start in any::<u32>(), steps in prop::collection::vec(0.0f64..0.49, 1..200),
        ) {
            let mask = u64::MAX >> (64 - width);
            let mut truth = u64::from(start) & mask;
            let mut widener = Widener::new(truth, width);
            for step in steps {
                // Half a wrap at most, so that the count stays within 63 bits.
                truth += (step * (mask.min(1 << 50) as f64)) as u64;
                prop_assert_eq!(widener.extend(truth & mask), truth);
            }
        }
    }

    #[test]
    fn a_slightly_older_reading_is_not_a_wrap() {
        let mut widener = Widener::new(0xffff_fff0, 32);
        assert_eq!(widener.extend(0x10), 0x1_0000_0010);
        assert_eq!(widener.extend(0xffff_fffe), 0xffff_fffe);
        assert_eq!(widener.extend(0x11), 0x1_0000_0011);
    }
}
