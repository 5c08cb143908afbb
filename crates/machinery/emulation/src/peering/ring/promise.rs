//! Promise of one engine that no further packet arrives before an instant, for an engine that waits
//! for it (the null message of Chandy and Misra, 1979, and Bryant, 1977); and the request for such
//! a promise, since a sleeping engine makes none.

use core::sync::atomic::{AtomicI64, Ordering};

use timeloom_time::{Instant, Virtual};

/// Promise of one engine to another, and the other engine's request for it.
#[derive(Debug)]
pub(super) struct Promise {
    /// Packets that are not in the ring yet arrive at this instant or later, in nanoseconds of
    /// virtual time.
    made: AtomicI64,
    /// Promise for which the other engine waits, in nanoseconds of virtual time; [`NO_WISH`] if it
    /// does not wait.
    wished: AtomicI64,
}

const NO_WISH: i64 = i64::MAX;

impl Promise {
    pub(super) fn new() -> Self {
        Self {
            made: AtomicI64::new(0),
            wished: AtomicI64::new(NO_WISH),
        }
    }

    /// Promises that no further packet arrives before `at`; packets that arrive earlier must be in
    /// the ring already. Called by the promising engine. Returns true if the other engine waits for
    /// this promise and must be woken.
    pub(super) fn make(&self, at: Instant<Virtual>) -> bool {
        // Each engine does a swap and then a load, so at least one of them sees the other's write:
        // either this thread sees the request, or the requesting thread sees the promise.
        self.made.swap(at.as_ns(), Ordering::SeqCst);
        let wished = self.wished.load(Ordering::SeqCst);
        wished <= at.as_ns()
            && self
                .wished
                .compare_exchange(wished, NO_WISH, Ordering::SeqCst, Ordering::SeqCst)
                .is_ok()
    }

    /// Returns the promise. Called by the waiting engine, which must read it before it empties the
    /// ring.
    pub(super) fn made(&self) -> Instant<Virtual> {
        Instant::from_ns(self.made.load(Ordering::SeqCst))
    }

    /// Requests a promise that reaches `at`. Called by the waiting engine. Returns true if the
    /// promising engine must be woken.
    pub(super) fn wish(&self, at: Instant<Virtual>) -> bool {
        let before = self.wished.swap(at.as_ns(), Ordering::SeqCst);
        before != at.as_ns() && self.made() < at
    }

    /// Returns the request of the waiting engine; `None` if there is none. Called by the promising
    /// engine.
    pub(super) fn wished(&self) -> Option<Instant<Virtual>> {
        let wished = self.wished.load(Ordering::SeqCst);
        (wished != NO_WISH).then_some(Instant::from_ns(wished))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(ns: i64) -> Instant<Virtual> {
        Instant::from_ns(ns)
    }

    #[test]
    fn a_waiter_is_woken_once_by_a_promise_that_reaches_its_wish() {
        let promise = Promise::new();
        assert!(!promise.make(at(10)), "no thread waits");
        assert!(promise.wish(at(50)), "it does not know yet");
        assert!(!promise.wish(at(50)), "it does");
        assert_eq!(promise.wished(), Some(at(50)));
        assert!(!promise.make(at(49)));
        assert!(promise.make(at(50)));
        assert_eq!((promise.wished(), promise.made()), (None, at(50)));
        assert!(!promise.make(at(90)));
        assert!(!promise.wish(at(80)), "that has been promised");
    }
}
