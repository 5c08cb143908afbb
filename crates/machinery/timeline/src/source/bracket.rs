//! Bounds made of facts that each limit one side only.
//!
//! A timestamp that was sent at T1 and has arrived states "not before T1"; a request that was
//! answered with T4 states "not after T4" for the time of the request. Neither uses an average or
//! an assumption about paths.

use timeloom_clock::timeline::{Bound, Era};
use timeloom_clock::{Core, RateError, Timeline};
use timeloom_time::Instant;

/// The narrowest bound that follows from all facts of an era.
#[derive(Clone, Copy, Debug)]
pub(super) struct Bracket {
    era: Era,
    /// Maximum difference of the timeline's rate from the core clock's (positive).
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

    /// Forgets all facts; facts of different eras must not be mixed.
    pub(super) fn begin(&mut self, era: Era) {
        self.era = era;
        (self.low, self.high) = (None, None);
    }

    /// Records that the timeline was not before `earliest` at `at`.
    pub(super) fn not_before(&mut self, at: Instant<Core>, earliest: Instant<Timeline>) {
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
    pub(super) fn not_after(&mut self, at: Instant<Core>, latest: Instant<Timeline>) {
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

    /// Returns the bound at the later of the two sides' instants, once there are both. If they
    /// contradict each other there is none: the oscillator or the source is then not as stated, and
    /// the bracket is reset.
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

    /// Carries a fact of an earlier instant to `to`; one of a later instant is carried back, where
    /// the timeline was less.
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
        fn truth_stays_inside_whatever_order_facts_come_in(
            facts in prop::collection::vec((0i64..20_000_000_000, 0i64..5_000_000, any::<bool>()), 2..40),
            drift_ppb in -90_000i64..90_000,
        ) {
            let mut bracket = Bracket::new(Era::default(), RateError::from_ppb(100_000));
            // The timeline is true time; the core clock runs 1 + drift.
            let core = |t: i64| Instant::from_ns(t + (i128::from(t) * i128::from(drift_ppb)).div_euclid(1_000_000_000) as i64);
            for (t, slack, is_low) in facts {
                if is_low {
                    bracket.not_before(core(t + 1), Instant::from_ns(t - slack));
                } else {
                    bracket.not_after(core(t), Instant::from_ns(t + 1 + slack));
                }
                if let Some(bound) = bracket.bound() {
                    // True time when the core clock was `at`.
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
