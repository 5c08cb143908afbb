//! Servo that moves the estimate smoothly between the bounds.

use timeloom_time::{Duration, Instant};

use super::Bound;
use crate::{RateError, TimelineTime};

/// Control loop for offset and frequency (QuartzV, section IV-B-4), one per timeline. It makes the
/// estimate smooth. The bounds do not depend on it, and the estimate always stays within them.
#[derive(Clone, Debug, Default)]
pub struct Servo {
    frequency: RateError,
}

/// Result of the servo: a new line of the estimate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Steering {
    /// Present value of the estimate.
    pub estimate: Instant<TimelineTime>,
    /// Rate of the estimate relative to the core clock, until the next steering.
    pub rate: RateError,
    /// Middle of the bound minus the predicted estimate.
    pub offset: Duration,
}

impl Servo {
    /// Returns the first line: the estimate is set to the middle of the bound.
    pub fn start(&mut self, bound: &Bound, rates: (RateError, RateError)) -> Steering {
        self.frequency = middle(rates);
        let offset = Duration::ZERO;
        Steering {
            estimate: bound.middle(),
            rate: self.frequency,
            offset,
        }
    }

    /// Returns the next line. `predicted` is the present value of the estimate; the times are
    /// `since`, the time since the previous steering, and `next`, the approximate time until the
    /// next one.
    ///
    /// A tenth of the offset changes the frequency (integral part), which is kept within `rates`.
    /// Half of the offset is slewed away until the next steering (proportional part). A predicted
    /// value outside of the bound is certainly wrong, and is moved to the bound's edge at once.
    pub fn steer(
        &mut self,
        predicted: Instant<TimelineTime>,
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

/// Greatest slew: 500 ppm, as in the kernel.
const MOST_SLEW: RateError = RateError::from_ppb(500_000);
