//! Counter for Miri, which executes no assembly (`make miri`): it advances by one at each read. An
//! atomic operation with acquire and release ordering replaces the processor-specific ordering.

use core::sync::atomic::{AtomicU64, Ordering::SeqCst};

/// Returns the number of reads before this one.
pub fn ticks_ordered() -> u64 {
    static READINGS: AtomicU64 = AtomicU64::new(0);
    READINGS.fetch_add(1, SeqCst)
}

/// Returns zero. A fence orders the caller's following read after the counter.
pub(crate) fn dependent_zero(_: u64) -> usize {
    0
}
