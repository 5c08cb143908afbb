//! For Miri, which executes no assembly: a counter that advances by one at each read (`make miri`).
//! An acquiring and releasing operation replaces the processor-specific ordering.

use core::sync::atomic::{AtomicU64, Ordering::SeqCst};

/// Returns the number of reads so far.
pub fn ticks_ordered() -> u64 {
    static READINGS: AtomicU64 = AtomicU64::new(0);
    READINGS.fetch_add(1, SeqCst)
}

/// Returns zero; the fence before the following read provides the order.
pub(crate) fn dependent_zero(_: u64) -> usize {
    0
}
