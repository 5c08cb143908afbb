//! Bounds on the rate of true time relative to the core clock.

use std::collections::VecDeque;

use timeloom_time::{Duration, Instant};

use super::Bound;
use crate::oscillator::OscillatorSpec;
use crate::{Core, RateError};

/// Bounds on the rate error of the timeline relative to the core clock, for a future period. They
/// are those of the oscillator's specification, narrowed by observations.
///
/// Bounds of the timeline at two instants give a bound on the mean rate between them. With a stated
/// [`Stability`](crate::oscillator::Stability), the mean over a past window of length W bounds the
/// mean over the next H: between the two means, the slow part moves by at most `wander * (W + H) /
/// 2`, and the fast part differs by at most `jitter` in each.
#[derive(Clone, Debug)]
pub struct RateBounds {
    spec: OscillatorSpec,
    /// Greatest rate error of true time relative to the oscillator, by the specification.
    outer: RateError,
    observed: VecDeque<Bound>,
    inner: (RateError, RateError),
    valid_until: Instant<Core>,
}

impl RateBounds {
    /// Returns the bounds of the specification, without observations.
    pub fn new(spec: OscillatorSpec) -> Self {
        let outer = (-spec.max_error).of_inverse_outward();
        Self {
            spec,
            outer,
            observed: VecDeque::new(),
            inner: (-outer, outer),
            valid_until: Instant::from_ns(i64::MIN),
        }
    }

    /// Returns the widest rate error that the specification permits (positive).
    pub fn outer(&self) -> RateError {
        self.outer
    }

    /// Returns the lowest and the highest mean rate error from now until the core-clock instant
    /// `until`.
    pub fn until(&self, until: Instant<Core>) -> (RateError, RateError) {
        if until <= self.valid_until {
            self.inner
        } else {
            (-self.outer, self.outer)
        }
    }

    /// Adds an observation, and returns bounds on the mean rate error for `horizon` after it.
    /// Returns `None` if the observations contradict the specification: the oscillator is out of
    /// it, or a source was wrong.
    pub fn observe(&mut self, now: &Bound, horizon: Duration) -> Option<(RateError, RateError)> {
        let (mut low, mut high) = (-self.outer, self.outer);
        for before in &self.observed {
            let window = now.at - before.at;
            if window < SHORTEST_WINDOW {
                continue;
            }
            let slowest = RateError::quotient_down(now.earliest - before.latest - window, window);
            let fastest = RateError::quotient_up(now.latest - before.earliest - window, window);
            if slowest > self.outer || fastest < -self.outer {
                return None;
            }
            if let Some(change) = self.change(window, horizon) {
                low = low.max(slowest - change);
                high = high.min(fastest + change);
            }
        }
        if low > high {
            return None;
        }
        self.remember(now);
        self.inner = (low, high);
        self.valid_until = now.at + horizon;
        Some(self.inner)
    }

    /// Removes the observations, because the oscillator may be another one now.
    pub fn forget(&mut self) {
        *self = Self::new(self.spec);
    }

    /// Returns the greatest difference between the mean rates over `window` and over the `horizon`
    /// after it; `None` without a stated stability.
    fn change(&self, window: Duration, horizon: Duration) -> Option<RateError> {
        let stability = self.spec.stability?;
        let length_ns = i128::from((window + horizon).as_ns());
        let wander = i128::from(stability.wander_per_second.as_ppt()) * length_ns / 2_000_000_000;
        let total = wander + 2 * i128::from(stability.jitter.as_ppt());
        // Adds 1 %: the specification describes the oscillator relative to true time, while this is
        // the inverse rate, whose second-order terms differ.
        let total = total + total / 100 + 1;
        Some(RateError::from_ppt(
            i64::try_from(total).unwrap_or(i64::MAX),
        ))
    }

    fn remember(&mut self, now: &Bound) {
        let spaced = |last: &Bound| now.at - last.at >= SPACING;
        if self.observed.back().is_none_or(spaced) {
            self.observed.push_back(*now);
            if self.observed.len() > KEPT {
                self.observed.pop_front();
            }
        }
    }
}

/// Minimum length of a window. Over a shorter one, the bounds are too wide to tell the rate.
const SHORTEST_WINDOW: Duration = Duration::from_s(2);

/// Minimum time between two observations; closer ones give no new information.
const SPACING: Duration = Duration::from_s(4);

/// Number of past observations with which each new one is compared.
const KEPT: usize = 24;
