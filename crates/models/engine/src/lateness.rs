//! Lateness of events, and the limit beyond which a run is not trusted.

use timeloom_time::Duration;

/// Limit of the lateness beyond which a run is not trusted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limit {
    /// Delay after its instant beyond which an event counts as late.
    pub late_after: Duration,
    /// Tolerated late events per million.
    pub late_ppm: u32,
    /// Lateness of a single event that makes the run untrusted.
    pub worst: Duration,
}

impl Default for Limit {
    /// Returns a limit of 1 ms for late events, 500 of them per million, and 100 ms at most.
    fn default() -> Self {
        Self {
            late_after: Duration::from_ms(1),
            late_ppm: 500,
            worst: Duration::from_ms(100),
        }
    }
}

/// Record of the lateness of one engine, in virtual nanoseconds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lateness {
    limit: Limit,
    /// Bucket 0 counts events on time, bucket `k` those late by `2^(k-1)..2^k` ns.
    buckets: [u64; 65],
    events: u64,
    late: u64,
    worst: Duration,
}

impl Lateness {
    /// Returns an empty record, judged by `limit`.
    pub fn new(limit: Limit) -> Self {
        Self {
            limit,
            buckets: [0; 65],
            events: 0,
            late: 0,
            worst: Duration::ZERO,
        }
    }

    /// Records `count` events that were handled at most `late` after their instants.
    #[inline]
    pub fn record(&mut self, late: Duration, count: u64) {
        let ns = late.as_ns().max(0) as u64;
        self.buckets[(u64::BITS - ns.leading_zeros()) as usize] += count;
        self.events += count;
        if late > self.limit.late_after {
            self.late += count;
        }
        self.worst = self.worst.max(late);
    }

    /// Returns the number of recorded events.
    pub fn events(&self) -> u64 {
        self.events
    }

    /// Returns the number of events later than the limit's `late_after`.
    pub fn late(&self) -> u64 {
        self.late
    }

    /// Returns the late events as a fraction of all, 0 if there were none.
    pub fn late_fraction(&self) -> f64 {
        self.late as f64 / self.events.max(1) as f64
    }

    /// Returns the greatest lateness.
    pub fn worst(&self) -> Duration {
        self.worst
    }

    /// Returns the histogram: (upper bound in ns, events), without empty buckets.
    pub fn histogram(&self) -> impl Iterator<Item = (u64, u64)> + '_ {
        let bound = |bucket: usize| match bucket {
            0 => 0,
            64 => u64::MAX,
            _ => (1 << bucket) - 1,
        };
        let all = self.buckets.iter().enumerate();
        all.filter(|(_, count)| **count > 0)
            .map(move |(bucket, count)| (bound(bucket), *count))
    }

    /// Returns an upper bound of the lateness of this fraction of events.
    pub fn quantile(&self, fraction: f64) -> Duration {
        let rank = (fraction * self.events as f64).ceil() as u64;
        let mut seen = 0;
        for (bound, count) in self.histogram() {
            seen += count;
            if seen >= rank {
                let bound = i64::try_from(bound).unwrap_or(i64::MAX);
                return Duration::from_ns(bound).min(self.worst);
            }
        }
        self.worst
    }

    /// Returns true if the limit has been exceeded. Results of such a run describe an overloaded
    /// machine, not the network.
    pub fn is_untrusted(&self) -> bool {
        let allowed = u128::from(self.events) * u128::from(self.limit.late_ppm);
        self.worst > self.limit.worst || u128::from(self.late) * 1_000_000 > allowed
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_bounds_and_worst() {
        let mut lateness = Lateness::new(Limit::default());
        lateness.record(Duration::ZERO, 900);
        lateness.record(Duration::from_ns(5), 99);
        lateness.record(Duration::from_ns(700), 1);
        let histogram: Vec<_> = lateness.histogram().collect();
        assert_eq!(histogram, [(0, 900), (7, 99), (1023, 1)]);
        assert_eq!(lateness.quantile(0.99), Duration::from_ns(7));
        assert_eq!(lateness.quantile(1.0), Duration::from_ns(700));
        assert!(!lateness.is_untrusted());
    }

    #[test]
    fn either_limit_spoils_the_run() {
        let mut often = Lateness::new(Limit::default());
        often.record(Duration::ZERO, 1_999);
        often.record(Duration::from_ms(2), 1);
        assert!(!often.is_untrusted(), "500 per million is what it may be");
        often.record(Duration::from_ms(2), 1);
        assert!(often.is_untrusted());

        let mut once = Lateness::new(Limit::default());
        once.record(Duration::ZERO, 1_000_000);
        once.record(Duration::from_ms(101), 1);
        assert!(once.is_untrusted());
    }
}
