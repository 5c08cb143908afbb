//! Strictly increasing clock readings.

use core::sync::atomic::AtomicI64;
use core::sync::atomic::Ordering::Relaxed;

use timeloom_time::{Duration, Instant, Scale};

/// Clock reading, moved forward if needed to be later than the previous one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StrictTime<S: Scale> {
    /// Instant that is later than all previous readings.
    pub at: Instant<S>,
    /// Distance from the clock's reading to `at`; zero if the reading was not moved. An error
    /// interval around the reading must be widened by this distance.
    pub moved: Duration,
}

/// Generator of strictly increasing readings for one thread: `max(last + 1 ns, now)`.
///
/// A counter above 1 GHz gives the same whole nanosecond for several cycles, so strict order
/// requires the last reading to be remembered. This type belongs to one thread and costs an
/// addition and a comparison per reading.
#[derive(Clone, Copy, Debug)]
pub struct Strict<S: Scale> {
    last: Instant<S>,
}

impl<S: Scale> Strict<S> {
    /// Returns a generator that has given no reading yet.
    pub fn new() -> Self {
        Self {
            last: Instant::from_ns(i64::MIN),
        }
    }

    /// Returns `now`, or one nanosecond after the last reading if that is later.
    pub fn next(&mut self, now: Instant<S>) -> StrictTime<S> {
        let at = now.max(self.last + Duration::from_ns(1));
        self.last = at;
        StrictTime {
            at,
            moved: at - now,
        }
    }
}

impl<S: Scale> Default for Strict<S> {
    fn default() -> Self {
        Self::new()
    }
}

/// Generator of strictly increasing readings for all users of the object: the threads of a process,
/// or of a host if the object (one 64-bit word) is in shared memory.
///
/// A compare-and-swap on one word gives every reading a place in that word's single modification
/// order. No other data is published through the word, so no ordering with other memory is needed.
#[derive(Debug)]
#[repr(transparent)]
pub struct SharedStrict {
    last_ns: AtomicI64,
}

impl SharedStrict {
    /// Returns a generator that has given no reading yet.
    pub const fn new() -> Self {
        Self {
            last_ns: AtomicI64::new(i64::MIN),
        }
    }

    /// Returns `now`, or one nanosecond after the last reading of any user if that is later.
    ///
    /// Callers should read `now` immediately before the call. A reading taken earlier is moved
    /// forward needlessly, which only widens its interval.
    pub fn next<S: Scale>(&self, now: Instant<S>) -> StrictTime<S> {
        let now_ns = now.as_ns();
        let mut last_ns = self.last_ns.load(Relaxed);
        loop {
            let at_ns = now_ns.max(last_ns.saturating_add(1));
            match self
                .last_ns
                .compare_exchange_weak(last_ns, at_ns, Relaxed, Relaxed)
            {
                Ok(_) => {
                    let at = Instant::from_ns(at_ns);
                    return StrictTime {
                        at,
                        moved: at - now,
                    };
                }
                Err(seen) => last_ns = seen,
            }
        }
    }
}

impl Default for SharedStrict {
    fn default() -> Self {
        Self::new()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Core;

    #[test]
    fn a_clock_that_stands_or_steps_back_still_increases() {
        let mut strict = Strict::<Core>::new();
        let given: Vec<i64> = [5, 5, 3, 9, 8]
            .map(|ns| strict.next(Instant::from_ns(ns)).at.as_ns())
            .into();
        assert_eq!(given, [5, 6, 7, 9, 10]);
        assert_eq!(strict.next(Instant::from_ns(4)).moved, Duration::from_ns(7));
    }

    #[test]
    fn two_threads_never_get_the_same_or_an_earlier_reading() {
        // The clock is coarse on purpose, so that nearly every reading must be moved.
        let shared = SharedStrict::new();
        let handed_over = AtomicI64::new(i64::MIN);
        let run = || {
            let mut own = Vec::with_capacity(20_000);
            for turn in 0..20_000i64 {
                // Readings that the other thread has handed over must be before this thread's next
                // reading.
                let seen = handed_over.load(core::sync::atomic::Ordering::Acquire);
                let reading = shared.next(Instant::<Core>::from_ns(turn / 64)).at.as_ns();
                assert!(reading > seen, "{reading} after {seen} of the other thread");
                handed_over.fetch_max(reading, core::sync::atomic::Ordering::AcqRel);
                own.push(reading);
            }
            assert!(own.is_sorted_by(|a, b| a < b));
            own
        };
        let mut all = std::thread::scope(|scope| {
            let other = scope.spawn(run);
            let mut mine = run();
            mine.extend(other.join().unwrap());
            mine
        });
        all.sort_unstable();
        assert!(all.is_sorted_by(|a, b| a < b), "two readings alike");
    }
}
