//! Lock-free flag that states whether a thread sleeps.
//!
//! A thread that is about to sleep sets the flag ([`Flag::doze`]), checks for input once more, and
//! only then sleeps. A thread that has written input checks the flag afterwards ([`Flag::take`]).
//! Each of the two threads does a store followed by a load, and at least one of the loads must see
//! the other thread's store, however the processor reorders them. The fences ensure this.
//! `tests/model.rs` tries all interleavings.

use super::sync::{AtomicBool, Ordering, fence};

/// True if the thread sleeps or is about to sleep.
#[derive(Debug)]
pub(crate) struct Flag(AtomicBool);

impl Flag {
    pub(crate) fn new() -> Self {
        Self(AtomicBool::new(false))
    }

    /// Sets the flag; called by the thread that is about to sleep. Either that thread's later
    /// checks see new input, or the writer of the input sees the flag.
    pub(crate) fn doze(&self) {
        // Release: the sleeper's earlier actions, such as consuming signals, happen before any
        // signal that this store causes. All operations are swaps and not stores, because loom does
        // not know that no store can come between the value that another swap has read and the
        // value that it writes.
        self.0.swap(true, Ordering::AcqRel);
        fence(Ordering::SeqCst);
    }

    /// Clears the flag; called by the thread that has slept.
    pub(crate) fn wake(&self) {
        self.0.swap(false, Ordering::AcqRel);
    }

    /// Clears the flag and returns true if it was set, so that the caller must wake the thread.
    /// Called by a thread that has written input. Of several concurrent callers, one gets true.
    pub(crate) fn take(&self) -> bool {
        fence(Ordering::SeqCst);
        self.0.load(Ordering::Relaxed) && self.0.swap(false, Ordering::Acquire)
    }
}
