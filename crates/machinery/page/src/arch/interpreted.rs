//! For Miri, which executes no assembly: a counter that moves by one whenever it
//! is read (`make miri`). What the others do with the processor's order is given here by an
//! acquiring and releasing operation.

use core::sync::atomic::{AtomicU64, Ordering::SeqCst};

/// Readings so far.
pub fn ticks_ordered() -> u64 {
    static READINGS: AtomicU64 = AtomicU64::new(0);
    READINGS.fetch_add(1, SeqCst)
}

/// Zero; the fence before the reading that follows has to do.
pub(crate) fn dependent_zero(_: u64) -> usize {
    0
}
