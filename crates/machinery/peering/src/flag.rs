//! Whether a thread sleeps, told without a lock.
//!
//! Who wants to sleep says so ([`Flag::doze`]), then looks once more whether there
//! is something for it, and only then sleeps. Who has put something there asks the
//! flag afterwards ([`Flag::take`]). Of a store followed by a load on each side, one
//! load sees the other side's store, whatever the processor reorders: hence the
//! fences. `tests/model.rs` tries all interleavings.

use crate::sync::{AtomicBool, Ordering, fence};

/// Whether somebody sleeps, or is about to.
#[derive(Debug)]
pub(crate) struct Flag(AtomicBool);

impl Flag {
    pub(crate) fn new() -> Self {
        Self(AtomicBool::new(false))
    }

    /// The sleeper's: from here on others see that it sleeps. What it looks at
    /// afterwards is either new enough, or whoever writes it sees the flag.
    pub(crate) fn doze(&self) {
        // What it did before, such as taking in what has rung, is before any ringing
        // that this brings about. Swaps everywhere, not stores: loom does not know that
        // nothing comes between what another swap has read and what it writes.
        self.0.swap(true, Ordering::AcqRel);
        fence(Ordering::SeqCst);
    }

    /// The sleeper's: it is up.
    pub(crate) fn wake(&self) {
        self.0.swap(false, Ordering::AcqRel);
    }

    /// The other side's, after it has put something there: whether the sleeper is
    /// to be woken. One of several that ask is told so.
    pub(crate) fn take(&self) -> bool {
        fence(Ordering::SeqCst);
        self.0.load(Ordering::Relaxed) && self.0.swap(false, Ordering::Acquire)
    }
}
