//! Extension of a narrow counter to 63 bits.

/// Extends an n-bit counter to 63 bits, as the kernel's `cnt32_to_63` does for
/// the paper's CCNT (section 3.1): at 1 GHz, 32 bits wrap every 4.3 s.
///
/// It must read the counter at least twice per wrap (in the paper, in the scheduler). A value up to
/// half a wrap *behind* the last one counts as an earlier reading of another context, not as a
/// wrap: it is extended downwards and does not move the state.
#[derive(Clone, Copy, Debug)]
pub struct Widener {
    last: u64,
    unused_bits: u32,
}

impl Widener {
    /// Starts at `raw`, the value of a counter of `width_bits` bits.
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

    /// Returns the 63-bit count for the current value of the counter.
    pub fn extend(&mut self, raw: u64) -> u64 {
        let count = self.peek(raw);
        self.last = self.last.max(count);
        count
    }

    /// Like [`Self::extend`], without moving the state.
    pub fn peek(&self, raw: u64) -> u64 {
        // Shifted to the top, the difference of two n-bit numbers wraps as an
        // i64 does, and the arithmetic shift back extends its sign.
        let moved = raw.wrapping_sub(self.last) << self.unused_bits;
        let step = (moved as i64) >> self.unused_bits;
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
                // Half a wrap at most, and not beyond 63 bits in all.
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
