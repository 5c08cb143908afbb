//! Servo: moves the estimate between the bounds.

use timeloom_time::{Duration, Instant};

use super::Bound;
use crate::{RateError, Timeline};

/// Feedback on offset and frequency (QuartzV, section IV-B-4), one per timeline. It makes the
/// estimate smooth; the bounds do not depend on it, and the estimate always stays between them.
#[derive(Clone, Debug, Default)]
pub struct Servo {
    frequency: RateError,
}

/// Start and rate of the estimate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Steering {
    /// Current estimate.
    pub estimate: Instant<Timeline>,
    /// Rate of the estimate against the core clock.
    pub rate: RateError,
    /// Distance of the middle of the bounds from the predicted value.
    pub offset: Duration,
}

impl Servo {
    /// Returns the first steering: a step to the middle of the bound.
    pub fn start(&mut self, bound: &Bound, rates: (RateError, RateError)) -> Steering {
        self.frequency = middle(rates);
        let offset = Duration::ZERO;
        Steering {
            estimate: bound.middle(),
            rate: self.frequency,
            offset,
        }
    }

    /// Continues from `predicted`, the current value of the estimate, `since` after the last
    /// steering and about `next` before the next one.
    ///
    /// A tenth of the offset goes to the frequency (integral part), kept within `rates`; half of it
    /// is slewed away until the next steering (proportional part). A prediction outside of the
    /// bound is certainly wrong and is moved to its edge at once.
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

/// Limit of the kernel's slew: 500 ppm.
const MOST_SLEW: RateError = RateError::from_ppb(500_000);
