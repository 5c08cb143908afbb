//! Retransmission timeout (RFC 6298).

use timeloom_time::Duration;

/// Smoothed round-trip time, and the retransmission timeout derived from it.
#[derive(Clone, Debug)]
pub(crate) struct RoundTrip {
    smoothed_ns: i64,
    variation_ns: i64,
    floor_ns: i64,
    /// Number of times the timeout was doubled since the last acknowledgement of new data.
    backoff: u32,
}

const FIRST_RTO_NS: i64 = 1_000_000_000;
/// Maximum timeout in ns; RFC 6298 (2.5) permits a maximum of 60 s or more.
const CEILING_NS: i64 = 60_000_000_000;

impl RoundTrip {
    pub(crate) fn new(floor: Duration) -> Self {
        Self {
            smoothed_ns: 0,
            variation_ns: 0,
            floor_ns: floor.as_ns(),
            backoff: 0,
        }
    }

    /// Adds a sample of the round-trip time (section 2, (2.2) and (2.3)), in whole nanoseconds.
    #[inline]
    pub(crate) fn sample(&mut self, round_trip: Duration) {
        let ns = round_trip.as_ns().max(1);
        if self.smoothed_ns == 0 {
            self.smoothed_ns = ns;
            self.variation_ns = ns / 2;
        } else {
            self.variation_ns += ((self.smoothed_ns - ns).abs() - self.variation_ns) / 4;
            self.smoothed_ns += (ns - self.smoothed_ns) / 8;
        }
        self.backoff = 0;
    }

    /// Doubles the timeout after the timer has expired (5.5).
    pub(crate) fn back_off(&mut self) {
        self.backoff = (self.backoff + 1).min(16);
    }

    #[inline]
    pub(crate) fn timeout(&self) -> Duration {
        let base = if self.smoothed_ns == 0 {
            FIRST_RTO_NS
        } else {
            (self.smoothed_ns + 4 * self.variation_ns).max(self.floor_ns)
        };
        Duration::from_ns((base << self.backoff).min(CEILING_NS))
    }

    /// Returns the minimum timeout.
    pub(crate) fn floor(&self) -> Duration {
        Duration::from_ns(self.floor_ns)
    }

    pub(crate) fn smoothed(&self) -> Duration {
        Duration::from_ns(self.smoothed_ns)
    }
}
