//! The dilation of a clock, as users give it and as machines send it to each other.

use crate::Rate;

/// Wall seconds per virtual second, from [`Self::LEAST`] to [`Self::MOST`]. With 2, an experiment
/// takes twice as long as its programs observe. Greater dilations are slower clocks, and compare as
/// greater.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Dilation(
    /// Bits of the double. The order of positive doubles is that of their bits.
    u64,
);

impl Dilation {
    /// Minimum factor.
    pub const LEAST: f64 = 1e-6;
    /// Maximum factor.
    pub const MOST: f64 = 1e6;
    /// Dilation of a clock that runs in real time.
    pub const ONE: Self = Self(1.0_f64.to_bits());

    /// Returns the dilation by `factor`; `None` if it is not within [`Self::LEAST`] …
    /// [`Self::MOST`].
    pub fn new(factor: f64) -> Option<Self> {
        let range = Self::LEAST..=Self::MOST;
        range.contains(&factor).then(|| Self(factor.to_bits()))
    }

    /// Returns the factor.
    pub fn factor(self) -> f64 {
        f64::from_bits(self.0)
    }

    /// Returns the virtual time per wall time, which is 1 / factor.
    pub fn rate(self) -> Rate {
        // Every dilation is well within the range of `Rate`.
        Rate::from_f64(self.factor())
            .and_then(Rate::inverse)
            .unwrap_or(Rate::ONE)
    }

    /// Returns the bits of the factor, an IEEE 754 double; never 0.
    pub const fn to_bits(self) -> u64 {
        self.0
    }

    /// Returns the dilation with these bits; `None` if they are no dilation.
    pub fn from_bits(bits: u64) -> Option<Self> {
        Self::new(f64::from_bits(bits))
    }
}

impl core::fmt::Debug for Dilation {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        write!(f, "{}", self.factor())
    }
}

impl core::fmt::Display for Dilation {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        write!(f, "{}", self.factor())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn factors_beyond_the_bounds_are_refused() {
        let bad = [f64::NAN, f64::INFINITY, -1.0, 0.0, -0.0, 0.9e-6, 1.1e6];
        for factor in bad {
            assert_eq!(Dilation::new(factor), None, "{factor}");
            assert_eq!(Dilation::from_bits(factor.to_bits()), None, "{factor}");
        }
        for factor in [Dilation::LEAST, 1.0, Dilation::MOST] {
            let dilation = Dilation::new(factor).expect("it is within the bounds");
            assert_eq!(dilation.factor(), factor);
            assert!(!dilation.rate().is_stopped());
        }
        assert_eq!(Dilation::ONE.rate(), Rate::ONE);
    }

    proptest! {
        #[test]
        fn slower_clocks_are_greater(a in 1e-6..1e6_f64, b in 1e-6..1e6_f64) {
            let [one, other] = [a, b].map(|it| Dilation::new(it).expect("within the bounds"));
            prop_assert_eq!(one < other, a < b);
            prop_assert!(one >= other || one.rate() >= other.rate());
            prop_assert_eq!(Dilation::from_bits(one.to_bits()), Some(one));
        }

        #[test]
        fn other_bits_are_no_dilation(bits in any::<u64>()) {
            if let Some(dilation) = Dilation::from_bits(bits) {
                prop_assert_eq!(dilation.to_bits(), bits);
                let factor = dilation.factor();
                prop_assert!((Dilation::LEAST..=Dilation::MOST).contains(&factor));
            }
        }
    }
}
