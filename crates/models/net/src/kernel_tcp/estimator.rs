//! Retransmission timeout, computed as in Linux (net/ipv4/tcp_input.c, `tcp_rtt_estimator`).

use timeloom_time::Duration;

/// Smoothed round-trip time and its deviation, in microseconds and scaled as in Linux.
#[derive(Clone, Debug, Default)]
pub(super) struct LinuxRtt {
    /// Eight times the smoothed round-trip time in µs; 0 before the first sample.
    srtt: i64,
    /// Four times the mean deviation, in µs.
    deviation: i64,
    /// Greatest deviation within the present round trip, at least the minimum timeout, in µs.
    greatest: i64,
    variation: i64,
    /// Sequence number whose acknowledgement begins the next round trip.
    next_round: u32,
    /// Smallest sample so far, in µs.
    least_us: i64,
}

/// Minimum timeout (TCP_RTO_MIN).
pub(super) const LEAST_TIMEOUT: Duration = Duration::from_ms(200);
/// Maximum timeout (TCP_RTO_MAX).
const GREATEST_TIMEOUT: Duration = Duration::from_s(120);
/// Timeout before the first sample (TCP_TIMEOUT_INIT).
pub(super) const FIRST_TIMEOUT: Duration = Duration::from_s(1);

impl LinuxRtt {
    /// Adds a sample of the round-trip time. The acknowledgement is up to sequence number
    /// `acknowledged`, and the flow has sent up to `sent`.
    pub(super) fn sample(&mut self, round_trip: Duration, acknowledged: u32, sent: u32) {
        let least = LEAST_TIMEOUT.as_ns() / 1_000;
        let us = (round_trip.as_ns() / 1_000).max(1);
        self.least_us = if self.srtt == 0 {
            us
        } else {
            self.least_us.min(us)
        };
        if self.srtt == 0 {
            self.srtt = us << 3;
            self.deviation = us << 1;
            self.variation = self.deviation.max(least);
            self.greatest = self.variation;
            self.next_round = sent;
            return;
        }
        let mut error = us - (self.srtt >> 3);
        self.srtt = (self.srtt + error).max(1);
        if error < 0 {
            error = -error - (self.deviation >> 2);
            if error > 0 {
                // A decrease of the round-trip time has less weight in the deviation.
                error >>= 3;
            }
        } else {
            error -= self.deviation >> 2;
        }
        self.deviation += error;
        if self.deviation > self.greatest {
            self.greatest = self.deviation;
            self.variation = self.variation.max(self.greatest);
        }
        if super::segment::before(self.next_round, acknowledged) {
            if self.greatest < self.variation {
                self.variation -= (self.variation - self.greatest) >> 2;
            }
            self.next_round = sent;
            self.greatest = least;
        }
    }

    /// Returns the timeout after it was doubled `doublings` times.
    pub(super) fn timeout(&self, doublings: u32) -> Duration {
        let base = match self.smoothed() {
            None => FIRST_TIMEOUT,
            Some(smoothed) => smoothed + Duration::from_us(self.variation),
        };
        let doubled = base.as_ns().saturating_mul(1 << doublings.min(16));
        Duration::from_ns(doubled).min(GREATEST_TIMEOUT)
    }

    /// Returns the smoothed round-trip time; `None` before the first sample.
    pub(super) fn smoothed(&self) -> Option<Duration> {
        (self.srtt > 0).then(|| Duration::from_us(self.srtt >> 3))
    }

    /// Returns the smallest sample; zero before the first.
    pub(super) fn least(&self) -> Duration {
        Duration::from_us(self.least_us)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steady_round_trips_time_out_after_them_and_200_ms() {
        let mut rtt = LinuxRtt::default();
        assert_eq!(rtt.timeout(0), FIRST_TIMEOUT);
        for round in 0..100 {
            rtt.sample(Duration::from_ms(20), round, round + 1);
        }
        assert_eq!(rtt.timeout(0), Duration::from_ms(220));
        assert_eq!(rtt.timeout(3), Duration::from_ms(1_760));
        assert_eq!(rtt.timeout(40), GREATEST_TIMEOUT);
    }

    #[test]
    fn one_long_round_trip_lengthens_the_timeout_for_some_rounds() {
        let mut rtt = LinuxRtt::default();
        (0..50).for_each(|round| rtt.sample(Duration::from_ms(20), round, round + 1));
        rtt.sample(Duration::from_ms(500), 51, 52);
        let after = rtt.timeout(0);
        assert!(after > Duration::from_ms(550), "{after}");
        (52..120).for_each(|round| rtt.sample(Duration::from_ms(20), round, round + 1));
        assert!(
            rtt.timeout(0) < Duration::from_ms(230),
            "{}",
            rtt.timeout(0)
        );
        assert_eq!(rtt.least(), Duration::from_ms(20));
    }
}
