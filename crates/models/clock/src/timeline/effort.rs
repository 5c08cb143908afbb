//! Polling interval of the sources, derived from the required accuracy.

use timeloom_time::Duration;

use crate::RateError;

/// Limits of the time between two queries to one source.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PollLimits {
    /// Minimum interval, even if a binding would need a shorter one.
    pub shortest: Duration,
    /// Maximum interval, also without any binding.
    pub longest: Duration,
}

/// Returns the longest time between two queries at which the required accuracy is maintained, even
/// if every second answer is lost.
///
/// `accuracy` is that of the most demanding binding, `None` without bindings. `after_sync` is the
/// greatest distance of true time from the estimate immediately after an answer, and `growth` is
/// the rate at which that distance grows.
pub fn poll_interval(
    accuracy: Option<Duration>,
    after_sync: Duration,
    growth: RateError,
    limits: PollLimits,
) -> Duration {
    let Some(accuracy) = accuracy else {
        return limits.longest;
    };
    let spare_ns = i128::from((accuracy - after_sync).as_ns());
    let growth_ppt = i128::from(growth.as_ppt().max(1));
    let lasts_ns = spare_ns.max(0) * 1_000_000_000_000 / growth_ppt;
    let half = Duration::from_ns(i64::try_from(lasts_ns / 2).unwrap_or(i64::MAX));
    half.clamp(limits.shortest, limits.longest)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tight_bindings_cost_questions_and_loose_ones_do_not() {
        let limits = PollLimits {
            shortest: Duration::from_ms(125),
            longest: Duration::from_s(1024),
        };
        let drift = RateError::from_ppb(50_000);
        let after = |accuracy| poll_interval(accuracy, Duration::from_us(100), drift, limits);
        assert_eq!(after(None), limits.longest);
        assert_eq!(after(Some(Duration::from_ms(10))), Duration::from_s(99));
        assert_eq!(after(Some(Duration::from_us(200))), Duration::from_s(1));
        assert_eq!(after(Some(Duration::from_us(50))), limits.shortest);
    }
}
