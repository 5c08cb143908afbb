//! The estimate between the bounds.

use timeloom_time::{Duration, Instant};

use super::Bound;
use crate::{RateError, Timeline};

/// Feedback on offset and frequency (QuartzV, section IV-B-4), one per
/// timeline. It makes the estimate smooth; the bounds do not depend on it, and
/// whatever it does the estimate stays between them.
#[derive(Clone, Debug, Default)]
pub struct Servo {
    frequency: RateError,
}

/// Where the estimate goes on from and how fast.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Steering {
    /// The estimate now.
    pub estimate: Instant<Timeline>,
    /// The estimate's rate against the core clock.
    pub rate: RateError,
    /// How far the middle of the bounds was from what had been predicted.
    pub offset: Duration,
}

impl Servo {
    /// The first steering: the middle of the bound, by a step.
    pub fn start(&mut self, bound: &Bound, rates: (RateError, RateError)) -> Steering {
        self.frequency = middle(rates);
        let offset = Duration::ZERO;
        Steering {
            estimate: bound.middle(),
            rate: self.frequency,
            offset,
        }
    }

    /// Goes on from `predicted`, what the estimate showed until now, `since`
    /// after the last steering and about `next` before the next one.
    ///
    /// A tenth of the offset goes to the frequency (integral part), kept within
    /// what `rates` says is possible; half of it is slewed away until the next
    /// time (proportional part). A prediction outside of the bound is certainly
    /// wrong and is moved to its edge at once.
    pub fn steer(
        &mut self,
        predicted: Instant<Timeline>,
        bound: &Bound,
        rates: (RateError, RateError),
        (since, next): (Duration, Duration),
    ) -> Steering {
        let shortest = Duration::from_ms(1);
        let (since, next) = (since.max(shortest), next.max(shortest));
        let offset = bound.middle() - predicted;
        let tenth = Duration::from_ns(offset.as_ns() / 10);
        let wanted = self.frequency + RateError::quotient_down(tenth, since);
        self.frequency = wanted.clamp(rates.0, rates.1);
        let estimate = predicted.clamp(bound.earliest, bound.latest);
        let half = Duration::from_ns((bound.middle() - estimate).as_ns() / 2);
        let slew = RateError::quotient_down(half, next).clamp(-MOST_SLEW, MOST_SLEW);
        Steering {
            estimate,
            rate: self.frequency + slew,
            offset,
        }
    }
}

fn middle(rates: (RateError, RateError)) -> RateError {
    RateError::from_ppt(rates.0.as_ppt().midpoint(rates.1.as_ppt()))
}

/// As the kernel's: 500 ppm.
const MOST_SLEW: RateError = RateError::from_ppb(500_000);
