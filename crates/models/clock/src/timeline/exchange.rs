//! Query to a source, and the source's answer.

use core::fmt;

use timeloom_time::{Duration, Instant};

use super::{Bound, Era};
use crate::{Core, RateError, TimelineTime};

/// The four time stamps of a two-way exchange, with the errors that the source states about itself.
///
/// For a source that is read directly (a PHC, `adjtimex`, another timeline), `asked` and `answered`
/// are equal: they are the source's reading, taken between two readings of the core clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Exchange {
    /// Era of the [`Action::Poll`](super::Action::Poll) that caused the query.
    pub era: Era,
    /// Core clock immediately before the query was sent.
    pub sent: Instant<Core>,
    /// The source's clock when the query arrived.
    pub asked: Instant<TimelineTime>,
    /// The source's clock when the answer was sent.
    pub answered: Instant<TimelineTime>,
    /// Core clock immediately after the answer arrived.
    pub received: Instant<Core>,
    /// Round-trip delay from the source to its own reference, as the source states it.
    pub root_delay: Duration,
    /// Error of the source in addition to half of that delay, as the source states it.
    pub root_dispersion: Duration,
    /// Minimum delay in each direction between host and source; 0 if unknown.
    pub least_delay: Duration,
    /// Greatest difference between the delays of the two directions, if it is guaranteed. Without a
    /// guarantee, the whole round trip may have been in one direction.
    pub asymmetry: Option<Duration>,
    /// True if the answer was proved to come from the source.
    pub authenticated: bool,
}

impl Exchange {
    /// Returns the exchange for a direct reading of a source, between two readings of the core
    /// clock. The source is off by at most `error`, and the reading is not authenticated.
    pub fn direct(
        era: Era,
        (sent, received): (Instant<Core>, Instant<Core>),
        shows: Instant<TimelineTime>,
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

/// Reason for which an exchange is rejected.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ExchangeRefusal {
    /// The query was sent before the last disturbance of the local clock.
    OldEra,
    /// The timeline demands authentication, and the answer is not authenticated.
    Unauthenticated,
    /// The timeline has no source with this number.
    UnknownSource,
    /// The time stamps contradict each other or the stated errors.
    Impossible,
}

impl fmt::Display for ExchangeRefusal {
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
    /// The answer left the source at `answered` and cannot have arrived before; this is the
    /// earliest value. The query reached the source at `asked` and cannot have been sent after;
    /// `asked` plus the whole round trip, measured by the slowest clock that the specification
    /// permits, is the latest value. A guaranteed asymmetry narrows both.
    ///
    /// `resolution` is the step of the core clock: its reading may be behind its true value by that
    /// much. `rate` is the greatest difference between the rates of true time and the core clock
    /// (positive).
    ///
    /// # Errors
    /// Returns [`ExchangeRefusal::Impossible`] if the time stamps contradict each other or
    /// the stated errors.
    pub fn bound(&self, resolution: Duration, rate: RateError) -> Result<Bound, ExchangeRefusal> {
        let round_trip = self.received - self.sent;
        let held = self.answered - self.asked;
        let stated = [self.root_delay, self.root_dispersion, self.least_delay];
        if round_trip.is_negative() || held.is_negative() || stated.iter().any(|d| d.is_negative())
        {
            return Err(ExchangeRefusal::Impossible);
        }
        // One nanosecond for half of an odd delay, and one because time stamps are whole
        // nanoseconds.
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
            // Both of the source's time stamps may be wrong, in opposite directions.
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
            bound = bound
                .intersection(&promised)
                .ok_or(ExchangeRefusal::Impossible)?;
        }
        if bound.earliest > bound.latest {
            Err(ExchangeRefusal::Impossible)
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
        fn the_bound_holds_for_any_delays_within_the_stated_limits(
            offset in -1i64 << 40..1 << 40, up in 0i64..1 << 30, held in 0i64..1 << 20,
            difference in -50_000i64..50_000, drift_ppb in -90_000i64..90_000,
            source_error in -5_000i64..5_000, promise in any::<bool>(),
        ) {
            // True instants of the events. The core clock runs at 1 + drift relative to true time.
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
