//! How often sources are asked: quality drives the effort.

use timeloom_time::Duration;

use crate::RateError;

/// The shortest and the longest time between two questions to one source.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PollLimits {
    /// Never more often than this, however tight a binding is.
    pub shortest: Duration,
    /// Never less often than this, even without any binding.
    pub longest: Duration,
}

/// The longest time between questions with which the tightest binding's
/// accuracy is kept, even if every second answer is lost.
///
/// `accuracy` is that of the tightest binding, `None` without any; `after_sync`
/// is how far true time may be from the estimate right after an answer, and
/// `growth` how fast that grows.
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
