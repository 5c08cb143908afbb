//! Lock-free flag of a sleeping thread.
//!
//! A thread that is about to sleep sets the flag ([`Flag::doze`]), checks once more for input, and
//! only then sleeps. A thread that has written input checks the flag afterwards ([`Flag::take`]).
//! Each side does a store followed by a load; at least one load must see the other side's store,
//! whatever the processor reorders: hence the fences. `tests/model.rs` tries all interleavings.

use crate::sync::{AtomicBool, Ordering, fence};

/// True if the thread sleeps, or is about to.
#[derive(Debug)]
pub(crate) struct Flag(AtomicBool);

impl Flag {
    pub(crate) fn new() -> Self {
        Self(AtomicBool::new(false))
    }

    /// Called by the sleeper: from here on others see that it sleeps. Its later checks either see
    /// new input, or the writer of that input sees the flag.
    pub(crate) fn doze(&self) {
        // The sleeper's earlier actions, such as consuming signals, happen before any signal caused
        // by this store. All operations are swaps, not stores: loom does not know that nothing
        // comes between the value that another swap has read and the value that it writes.
        self.0.swap(true, Ordering::AcqRel);
        fence(Ordering::SeqCst);
    }

    /// Called by the sleeper: it is awake.
    pub(crate) fn wake(&self) {
        self.0.swap(false, Ordering::AcqRel);
    }

    /// Called by the other side after it has written input: returns true if the sleeper must be
    /// woken. Of several concurrent callers, one gets true.
    pub(crate) fn take(&self) -> bool {
        fence(Ordering::SeqCst);
        self.0.load(Ordering::Relaxed) && self.0.swap(false, Ordering::Acquire)
    }
}
