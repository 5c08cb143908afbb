//! Rate limit of a guest's requests. Excess requests must wait, which delays only this guest.

use std::time::{Duration, Instant};

/// Numbers of bytes and requests in the current window.
#[derive(Debug)]
pub(crate) struct Pace {
    begun: Instant,
    bytes: usize,
    requests: usize,
}

impl Pace {
    pub(crate) fn new(now: Instant) -> Self {
        Self {
            begun: now,
            bytes: 0,
            requests: 0,
        }
    }

    /// Adds bytes and requests that arrived at `now`. Returns the time for which the guest must
    /// wait.
    pub(crate) fn take(&mut self, now: Instant, bytes: usize, requests: usize) -> Duration {
        if now.duration_since(self.begun) >= WINDOW {
            *self = Self::new(now);
        }
        self.bytes += bytes;
        self.requests += requests;
        if self.bytes < MOST_BYTES && self.requests < MOST_REQUESTS {
            return Duration::ZERO;
        }
        WINDOW.saturating_sub(now.duration_since(self.begun))
    }
}

const WINDOW: Duration = Duration::from_millis(20);

/// Maximum number of bytes in a window: about 6 MB per second.
const MOST_BYTES: usize = 128 * 1024;

/// Maximum number of requests in a window: about 2,000 per second.
const MOST_REQUESTS: usize = 40;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_guest_at_its_limit_waits_for_the_next_window() {
        let now = Instant::now();
        let mut pace = Pace::new(now);
        assert_eq!(pace.take(now, 1000, MOST_REQUESTS - 1), Duration::ZERO);
        let later = now + WINDOW / 4;
        assert_eq!(pace.take(later, 0, 1), WINDOW * 3 / 4);
        assert_eq!(pace.take(now + WINDOW, 1000, 1), Duration::ZERO);
        assert!(pace.take(now + WINDOW, MOST_BYTES, 0) > Duration::ZERO);
    }
}
