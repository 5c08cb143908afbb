//! Limit of an engine that waits for another one: the promise that nothing more arrives before an
//! instant (the null message of Chandy and Misra, 1979, and Bryant, 1977), and the request for one,
//! since a sleeping engine makes none.

use core::sync::atomic::{AtomicI64, Ordering};

use timeloom_time::{Instant, Virtual};

/// Promise of one engine to another, and the other's request.
#[derive(Debug)]
pub(super) struct Promise {
    /// Packets not yet in the ring arrive at this instant or later, virtual ns.
    made: AtomicI64,
    /// Promise that the other engine waits for, virtual ns; [`NO_WISH`] if none.
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

    /// Called by the engine: nothing more arrives before `at`; earlier packets are in the ring
    /// already. Returns true if the other engine waits for this promise and must be woken.
    pub(super) fn make(&self, at: Instant<Virtual>) -> bool {
        // With a swap on each side, one side sees the other's write: either this thread sees the
        // request, or the requesting thread sees the promise.
        self.made.swap(at.as_ns(), Ordering::SeqCst);
        let wished = self.wished.load(Ordering::SeqCst);
        wished <= at.as_ns()
            && self
                .wished
                .compare_exchange(wished, NO_WISH, Ordering::SeqCst, Ordering::SeqCst)
                .is_ok()
    }

    /// Called by the other engine: returns the promise. Must be read before the ring is emptied.
    pub(super) fn made(&self) -> Instant<Virtual> {
        Instant::from_ns(self.made.load(Ordering::SeqCst))
    }

    /// Called by the other engine: requests a promise that reaches `at`. Returns true if the engine
    /// must be woken.
    pub(super) fn wish(&self, at: Instant<Virtual>) -> bool {
        let before = self.wished.swap(at.as_ns(), Ordering::SeqCst);
        before != at.as_ns() && self.made() < at
    }

    /// Called by the engine: returns the request of the other engine.
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
    fn who_waits_is_rung_once_and_by_a_promise_that_reaches_its_wish() {
        let promise = Promise::new();
        assert!(!promise.make(at(10)), "nobody waits");
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
