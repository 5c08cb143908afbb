//! Bounds that are combined from facts, each of which limits the time from one side only.
//!
//! A message that was sent at T1 and has arrived proves "not before T1". A request that was
//! answered with T4 proves "not after T4" for the instant at which it was sent. Neither needs an
//! average or an assumption about path delays.

use timeloom_clock::timeline::{Bound, Era};
use timeloom_clock::{Core, RateError, TimelineTime};
use timeloom_time::Instant;

/// Narrowest bound that follows from all facts of an era.
#[derive(Clone, Copy, Debug)]
pub(super) struct Bracket {
    era: Era,
    /// Maximum deviation of the timeline's rate from the core clock's, as a positive value.
    outer: RateError,
    low: Option<Bound>,
    high: Option<Bound>,
}

impl Bracket {
    pub(super) fn new(era: Era, max_error: RateError) -> Self {
        Self {
            era,
            outer: (-max_error).of_inverse_outward(),
            low: None,
            high: None,
        }
    }

    pub(super) fn era(&self) -> Era {
        self.era
    }

    /// Forgets all facts and begins `era`; facts of different eras must not be mixed.
    pub(super) fn begin(&mut self, era: Era) {
        self.era = era;
        (self.low, self.high) = (None, None);
    }

    /// Records a lower limit: at core instant `at`, the timeline showed at least `earliest`.
    pub(super) fn not_before(&mut self, at: Instant<Core>, earliest: Instant<TimelineTime>) {
        let fact = Bound {
            at,
            earliest,
            latest: earliest,
        };
        self.low = Some(match self.carried(self.low, at) {
            Some(known) if known.earliest > earliest => known,
            _ => fact,
        });
    }

    /// Records an upper limit: at core instant `at`, the timeline showed at most `latest`.
    pub(super) fn not_after(&mut self, at: Instant<Core>, latest: Instant<TimelineTime>) {
        let fact = Bound {
            at,
            earliest: latest,
            latest,
        };
        self.high = Some(match self.carried(self.high, at) {
            Some(known) if known.latest < latest => known,
            _ => fact,
        });
    }

    /// Returns the bound at the later of the two facts' instants, or `None` unless there is a fact
    /// for each side. If the facts contradict each other, the oscillator or the source is not as
    /// stated: the bracket is reset and the result is `None`.
    pub(super) fn bound(&mut self) -> Option<Bound> {
        let at = self.low?.at.max(self.high?.at);
        let (low, high) = (self.carried(self.low, at)?, self.carried(self.high, at)?);
        if low.earliest > high.latest {
            self.begin(self.era);
            return None;
        }
        Some(Bound {
            at,
            earliest: low.earliest,
            latest: high.latest,
        })
    }

    /// Extrapolates a fact to the core instant `to`. A fact of a later instant is carried back, to
    /// which the timeline was less advanced.
    fn carried(&self, side: Option<Bound>, to: Instant<Core>) -> Option<Bound> {
        let bound = side?;
        if to >= bound.at {
            return Some(bound.carried_to(to, (-self.outer, self.outer)));
        }
        let back = bound.at - to;
        Some(Bound {
            at: to,
            earliest: bound.earliest - (back + self.outer.over_up(back)),
            latest: bound.latest - (back + (-self.outer).over_down(back)),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use timeloom_time::Duration;

    proptest! {
        #[test]
        fn truth_stays_inside_for_any_order_of_facts(
            facts in prop::collection::vec((0i64..20_000_000_000, 0i64..5_000_000, any::<bool>()), 2..40),
            drift_ppb in -90_000i64..90_000,
        ) {
            let mut bracket = Bracket::new(Era::default(), RateError::from_ppb(100_000));
            // In this test the timeline is true time, and the core clock runs at 1 + drift.
            let core = |t: i64| Instant::from_ns(t + (i128::from(t) * i128::from(drift_ppb)).div_euclid(1_000_000_000) as i64);
            for (t, slack, is_low) in facts {
                if is_low {
                    bracket.not_before(core(t + 1), Instant::from_ns(t - slack));
                } else {
                    bracket.not_after(core(t), Instant::from_ns(t + 1 + slack));
                }
                if let Some(bound) = bracket.bound() {
                    // True time at the instant when the core clock showed `at`.
                    let at = i128::from(bound.at.as_ns());
                    let truth = at * 1_000_000_000 / (1_000_000_000 + i128::from(drift_ppb));
                    prop_assert!(i128::from(bound.earliest.as_ns()) <= truth + 2, "{bound:?} {truth}");
                    prop_assert!(i128::from(bound.latest.as_ns()) >= truth - 2, "{bound:?} {truth}");
                }
            }
        }
    }

    #[test]
    fn a_contradiction_begins_anew() {
        let mut bracket = Bracket::new(Era(3), RateError::from_ppb(100_000));
        let at = Instant::from_ns(1_000);
        bracket.not_before(at, Instant::from_ns(500));
        assert_eq!(bracket.bound(), None);
        bracket.not_after(at, Instant::from_ns(400));
        assert_eq!((bracket.bound(), bracket.bound()), (None, None));
        bracket.not_after(at, Instant::from_ns(900));
        bracket.not_before(at, Instant::from_ns(500));
        assert_eq!(bracket.bound().unwrap().width(), Duration::from_ns(400));
    }
}
