//! The linear map between two clocks.

use crate::convert::{clamped_i64, low_u64};
use crate::{Duration, Instant, Rate, Scale};

/// A clock as a linear map from another clock: `out0 + rate * (in - in0)`.
///
/// One map describes a clock between two changes of its rate (a pause, a resume, a new dilation);
/// the history of a clock is a list of maps. Composing the maps counter → wall and wall → virtual
/// gives virtual time from the counter. ARCHITECTURE.md, in the table of the five papers, gives the
/// source of the formula.
#[derive(Debug, PartialEq, Eq)]
pub struct ClockMap<In: Scale, Out: Scale> {
    /// Reading of the input clock at which the map begins.
    pub in0: Instant<In>,
    /// Reading of the output clock when the input clock shows `in0`.
    pub out0: Instant<Out>,
    /// Units of the output clock per unit of the input clock.
    pub rate: Rate,
}

impl<In: Scale, Out: Scale> ClockMap<In, Out> {
    /// Returns the map through the point (`in0`, `out0`) with slope `rate`.
    pub const fn new(in0: Instant<In>, out0: Instant<Out>, rate: Rate) -> Self {
        Self { in0, out0, rate }
    }

    /// Returns a clock that runs at the rate of its input and shows `length` more; less, if
    /// `length` is negative.
    pub const fn ahead_by(length: Duration) -> Self {
        Self::new(Instant::ZERO, Instant::from_ns(length.as_ns()), Rate::ONE)
    }

    /// Returns the reading of the output clock when the input clock shows `at`, rounded towards
    /// `out0`. `at` may be before or after `in0`.
    pub const fn at(&self, at: Instant<In>) -> Instant<Out> {
        let delta = at.as_ns() as i128 - self.in0.as_ns() as i128;
        // The difference of two i64 has 64 bits and a sign.
        let moved = self.rate.apply(low_u64(delta.unsigned_abs())) as i128;
        let signed = if delta < 0 { -moved } else { moved };
        let out = self.out0.as_ns() as i128 + signed;
        Instant::from_ns(clamped_i64(out))
    }

    /// Returns the earliest input instant, at or after `in0`, at which the output clock shows
    /// `target` or more. Returns `None` if the clock is stopped and shows less than `target`, or if
    /// the instant is not representable.
    pub const fn first_reaching(&self, target: Instant<Out>) -> Option<Instant<In>> {
        let missing = target.as_ns() as i128 - self.out0.as_ns() as i128;
        if missing <= 0 {
            return Some(self.in0);
        }
        match self.rate.units_until(low_u64(missing.unsigned_abs())) {
            Some(units) => {
                let at = self.in0.as_ns() as i128 + units as i128;
                if at > i64::MAX as i128 {
                    None
                } else {
                    Some(Instant::from_ns(clamped_i64(at)))
                }
            }
            None => None,
        }
    }

    /// Returns a clock that agrees with this one at the input instant `at` and runs at `rate` from
    /// there on: for a pause, a resume or a new dilation.
    pub const fn continued(&self, at: Instant<In>, rate: Rate) -> Self {
        Self {
            in0: at,
            out0: self.at(at),
            rate,
        }
    }

    /// Composes two maps: the output of `self` is the input of `next`.
    pub const fn then<Far: Scale>(&self, next: &ClockMap<Out, Far>) -> ClockMap<In, Far> {
        ClockMap {
            in0: self.in0,
            out0: next.at(self.out0),
            rate: self.rate.times(next.rate),
        }
    }
}

impl<In: Scale, Out: Scale> Clone for ClockMap<In, Out> {
    fn clone(&self) -> Self {
        *self
    }
}
impl<In: Scale, Out: Scale> Copy for ClockMap<In, Out> {}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Utc, Virtual, Wall};
    use proptest::prelude::*;

    fn wall(ns: i64) -> Instant<Wall> {
        Instant::from_ns(ns)
    }

    #[test]
    fn paused_time_never_counts() {
        // Example of the paper's section 2.1: the clock runs for 3 s at tdf 2, stops for 10 s, and
        // runs for 1 s at tdf 1. Virtual time advances by 1.5 s + 1 s.
        let half = Rate::from_ratio(1, 2).unwrap();
        let start = ClockMap::<Wall, Virtual>::new(wall(0), Instant::ZERO, half);
        let paused = start.continued(wall(3_000_000_000), Rate::STOPPED);
        let resumed = paused.continued(wall(13_000_000_000), Rate::ONE);
        assert_eq!(
            resumed.at(wall(14_000_000_000)) - Instant::ZERO,
            Duration::from_ms(2500)
        );
    }

    #[test]
    fn a_clock_ahead_is_exact_on_both_sides_of_zero() {
        let length = Duration::from_ns(1_700_000_000_000_000_001);
        let there = ClockMap::<Wall, Utc>::ahead_by(length);
        let back = ClockMap::<Utc, Wall>::ahead_by(-length);
        for ns in [-3, 0, 1, i64::from(u32::MAX) << 20] {
            assert_eq!(there.at(wall(ns)).as_ns(), ns + length.as_ns());
            assert_eq!(back.at(there.at(wall(ns))), wall(ns));
        }
        assert_eq!(there.at(Instant::FAR_FUTURE), Instant::FAR_FUTURE);
    }

    proptest! {
        #[test]
        fn never_backwards_over_any_sequence(steps in prop::collection::vec((0i64..1 << 40, 0u64..20, 1u64..20), 1..30)) {
            let mut map = ClockMap::<Wall, Virtual>::new(wall(0), Instant::ZERO, Rate::ONE);
            let mut now = wall(0);
            let mut last = map.at(now);
            for (length, num, den) in steps {
                now += Duration::from_ns(length);
                prop_assert!(map.at(now) >= last);
                let next = map.continued(now, Rate::from_ratio(num, den).unwrap());
                prop_assert_eq!(next.at(now), map.at(now), "a change of rate must not jump");
                map = next;
                last = map.at(now);
            }
        }

        #[test]
        fn first_reaching_is_neither_early_nor_late(num in 1u64..1000, den in 1u64..1000, target in 0i64..1 << 45) {
            let map = ClockMap::<Wall, Virtual>::new(wall(77), Instant::from_ns(5), Rate::from_ratio(num, den).unwrap());
            let target = Instant::from_ns(target);
            let at = map.first_reaching(target).unwrap();
            prop_assert!(map.at(at) >= target);
            prop_assert!(at == map.in0 || map.at(at - Duration::from_ns(1)) < target);
        }

        #[test]
        fn composition_agrees_with_one_after_the_other(a in 1u64..1000, b in 1u64..1000, at in 0i64..1 << 35) {
            let first = ClockMap::<Counter, Wall>::new(Instant::ZERO, wall(9), Rate::from_ratio(a, 500).unwrap());
            let second = ClockMap::<Wall, Virtual>::new(wall(9), Instant::ZERO, Rate::from_ratio(b, 500).unwrap());
            let both = first.then(&second);
            let two_steps = second.at(first.at(Instant::from_ns(at)));
            // The composed map rounds once and two steps round twice; the product of the rates is
            // rounded too.
            prop_assert!((both.at(Instant::from_ns(at)).as_ns() - two_steps.as_ns()).abs() <= 4);
        }
    }

    use crate::Counter;
}
