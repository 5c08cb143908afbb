//! How far an engine may go when it waits for another one: the promise that nothing more
//! comes before an instant (the null message of Chandy and Misra, 1979, and Bryant, 1977),
//! and the wish for one, since an engine that sleeps makes none.

use core::sync::atomic::{AtomicI64, Ordering};

use timeloom_time::{Instant, Virtual};

/// What one engine promises another one, and what that one would like to be promised.
#[derive(Debug)]
pub(super) struct Promise {
    /// Whatever is not in the ring yet arrives at this instant or later, virtual ns.
    made: AtomicI64,
    /// The other one waits for a promise that reaches this, virtual ns; [`NO_WISH`].
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

    /// The engine's: nothing more arrives before `at`. Whatever does has been put into the
    /// ring. Says whether the other one waits for that and is to be rung.
    pub(super) fn make(&self, at: Instant<Virtual>) -> bool {
        // With a swap on each side one sees what the other has written: either the wish is
        // seen here, or the promise by who has wished.
        self.made.swap(at.as_ns(), Ordering::SeqCst);
        let wished = self.wished.load(Ordering::SeqCst);
        wished <= at.as_ns()
            && self
                .wished
                .compare_exchange(wished, NO_WISH, Ordering::SeqCst, Ordering::SeqCst)
                .is_ok()
    }

    /// The other one's: what has been promised. To be asked before the ring is emptied.
    pub(super) fn made(&self) -> Instant<Virtual> {
        Instant::from_ns(self.made.load(Ordering::SeqCst))
    }

    /// The other one's: it waits for a promise that reaches `at`. Says whether the engine has
    /// to be told.
    pub(super) fn wish(&self, at: Instant<Virtual>) -> bool {
        let before = self.wished.swap(at.as_ns(), Ordering::SeqCst);
        before != at.as_ns() && self.made() < at
    }

    /// The engine's: what the other one waits for.
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
