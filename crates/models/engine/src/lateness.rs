//! Lateness of events: the virtual time between an event's instant and its handling.

use timeloom_time::Duration;
use timeloom_time::convert::saturating_u64;

/// Limits of the lateness beyond which the results of a run are not trusted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limit {
    /// Lateness above which an event counts as late.
    pub late_after: Duration,
    /// Maximum number of late events per million events.
    pub late_ppm: u32,
    /// Maximum lateness of a single event.
    pub worst: Duration,
}

impl Default for Limit {
    /// Returns the default limits: events count as late above 1 ms, at most 500 events per million
    /// may be late, and none by more than 100 ms.
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
    /// Histogram: bucket 0 counts the events without lateness; bucket `k` counts the events that
    /// were late by `2^(k-1)..2^k` ns.
    buckets: [u64; 65],
    events: u64,
    late: u64,
    worst: Duration,
}

impl Lateness {
    /// Returns an empty record that is judged by `limit`.
    pub fn new(limit: Limit) -> Self {
        Self {
            limit,
            buckets: [0; 65],
            events: 0,
            late: 0,
            worst: Duration::ZERO,
        }
    }

    /// Records `count` events, each of which was handled at most `late` after its instant.
    #[inline]
    pub fn record(&mut self, late: Duration, count: u64) {
        let ns = late.as_unsigned_ns();
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

    /// Returns the number of events that exceeded the limit's `late_after`.
    pub fn late(&self) -> u64 {
        self.late
    }

    /// Returns the number of late events divided by the number of all events; 0 without events.
    pub fn late_fraction(&self) -> f64 {
        self.late as f64 / self.events.max(1) as f64
    }

    /// Returns the greatest lateness of any event.
    pub fn worst(&self) -> Duration {
        self.worst
    }

    /// Iterates over the non-empty buckets of the histogram: (upper bound in ns, number of events).
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

    /// Returns an upper bound of the lateness that the given fraction of events does not exceed.
    pub fn quantile(&self, fraction: f64) -> Duration {
        let rank = saturating_u64((fraction * self.events as f64).ceil());
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

    /// Returns true if a limit has been exceeded. The results of such a run describe an overloaded
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
