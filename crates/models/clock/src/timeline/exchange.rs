//! A question to a source and its answer.

use core::fmt;

use timeloom_time::{Duration, Instant};

use super::{Bound, Era};
use crate::{Core, RateError, Timeline};

/// The four time stamps of a two-way exchange, with the source's statements about itself. A source
/// that is read directly (a PHC, `adjtimex`, another timeline) gives `answered == asked`: its
/// reading, between two of the core clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Exchange {
    /// Era of the [`Action::Poll`](super::Action::Poll) that asked.
    pub era: Era,
    /// Core clock before the question left.
    pub sent: Instant<Core>,
    /// The source's clock when the question arrived.
    pub asked: Instant<Timeline>,
    /// The source's clock when the answer left.
    pub answered: Instant<Timeline>,
    /// Core clock after the answer arrived.
    pub received: Instant<Core>,
    /// The source's stated round trip to its own reference.
    pub root_delay: Duration,
    /// The source's stated error beyond that.
    pub root_dispersion: Duration,
    /// Minimum delay of each direction (0 if unknown).
    pub least_delay: Duration,
    /// Maximum difference of the delays of the two directions, if guaranteed; without a guarantee
    /// the whole round trip may have been in one direction.
    pub asymmetry: Option<Duration>,
    /// True if the answer was proved to come from the source.
    pub authenticated: bool,
}

impl Exchange {
    /// Returns a direct reading of a source, between two readings of the core clock. The source is
    /// off by at most `error` and is not authenticated.
    pub fn direct(
        era: Era,
        (sent, received): (Instant<Core>, Instant<Core>),
        shows: Instant<Timeline>,
        error: Duration,
    ) -> Self {
        Self {
            era,
            sent,
            asked: shows,
            answered: shows,
            received,
            root_delay: Duration::ZERO,
            root_dispersion: error,
            least_delay: Duration::ZERO,
            asymmetry: None,
            authenticated: false,
        }
    }
}

/// Reason why an exchange is rejected.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refused {
    /// The question was asked before the last disturbance.
    OldEra,
    /// The timeline demands authentication and the answer has none.
    Unauthenticated,
    /// The source does not exist.
    UnknownSource,
    /// The stamps contradict each other or the stated errors.
    Impossible,
}

impl fmt::Display for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::OldEra => "the exchange began before the last disturbance",
            Self::Unauthenticated => "the answer is not authenticated",
            Self::UnknownSource => "there is no such source",
            Self::Impossible => "the time stamps contradict each other",
        })
    }
}

impl Exchange {
    /// Returns the bound on the timeline at the instant when the answer was received.
    ///
    /// The answer left at `answered` and cannot have arrived before: that is the earliest. The
    /// question was there at `asked` and cannot have been sent after: `asked` plus the whole round
    /// trip, on the slowest clock that the spec allows, is the latest. A guaranteed asymmetry
    /// narrows both.
    ///
    /// `resolution` is the core clock's step: its reading may be that much behind its value. `rate`
    /// is the maximum difference between true time's rate and the core clock's (positive).
    ///
    /// # Errors
    /// Returns [`Refused::Impossible`] if the stamps contradict each other or the stated errors.
    pub fn bound(&self, resolution: Duration, rate: RateError) -> Result<Bound, Refused> {
        let round_trip = self.received - self.sent;
        let held = self.answered - self.asked;
        let stated = [self.root_delay, self.root_dispersion, self.least_delay];
        if round_trip.is_negative() || held.is_negative() || stated.iter().any(|d| d.is_negative())
        {
            return Err(Refused::Impossible);
        }
        // One for the half of an odd delay, one because stamps are whole.
        let source_error =
            Duration::from_ns(self.root_delay.as_ns() / 2 + 2) + self.root_dispersion;
        let longest = round_trip + resolution + rate.over_up(round_trip + resolution);
        let mut bound = Bound {
            at: self.received,
            earliest: self.answered - source_error + self.least_delay - resolution,
            latest: self.asked + source_error - self.least_delay + longest,
        };
        if let Some(asymmetry) = self.asymmetry {
            let shortest = round_trip - resolution - rate.over_up(round_trip);
            // Both of the source's stamps may be wrong, in opposite directions.
            let twice = source_error + source_error;
            let (most, least) = (longest - held + twice, shortest - held - twice);
            let half = |length: Duration| Duration::from_ns(length.as_ns().div_euclid(2));
            let promised = Bound {
                at: self.received,
                earliest: self.answered - source_error + half(least - asymmetry) - resolution,
                latest: self.answered
                    + source_error
                    + half(most + asymmetry + Duration::from_ns(1)),
            };
            bound = bound.intersection(&promised).ok_or(Refused::Impossible)?;
        }
        if bound.earliest > bound.latest {
            Err(Refused::Impossible)
        } else {
            Ok(bound)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn the_bound_holds_for_any_delays_within_what_is_stated(
            offset in -1i64 << 40..1 << 40, up in 0i64..1 << 30, held in 0i64..1 << 20,
            difference in -50_000i64..50_000, drift_ppb in -90_000i64..90_000,
            source_error in -5_000i64..5_000, promise in any::<bool>(),
        ) {
            // True instants; the core clock runs at 1 + drift against them.
            let down = (up + difference).max(0);
            let t1 = 1 << 41;
            let (t2, t3) = (t1 + up, t1 + up + held);
            let t4 = t3 + down;
            let core = |t: i64| offset + t + (i128::from(t) * i128::from(drift_ppb)).div_euclid(1_000_000_000) as i64;
            let exchange = Exchange {
                era: Era::default(),
                sent: Instant::from_ns(core(t1)),
                asked: Instant::from_ns(t2 + source_error),
                answered: Instant::from_ns(t3 + source_error),
                received: Instant::from_ns(core(t4)),
                root_delay: Duration::from_ns(4_000),
                root_dispersion: Duration::from_ns(3_000),
                least_delay: Duration::ZERO,
                asymmetry: promise.then_some(Duration::from_us(50)),
                authenticated: false,
            };
            let rate = RateError::from_ppb(-100_000).of_inverse_outward();
            let bound = exchange.bound(Duration::from_ns(1), rate).unwrap();
            prop_assert!(bound.earliest.as_ns() <= t4 && t4 <= bound.latest.as_ns(), "{:?} {}", bound, t4);
        }
    }
}
