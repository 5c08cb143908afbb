//! The cycle counter that is the input of the maps.

pub use crate::arch::ticks_ordered;

/// Counter that the page's maps take as input.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum CounterKind {
    /// The processor's: the invariant time-stamp counter of x86-64, the generic timer of 64-bit
    /// ARM. Read with [`ticks_ordered`].
    Tsc = 1,
    /// CLOCK_MONOTONIC in nanoseconds, by a system call. Slow but always correct, for machines
    /// whose counter the kernel does not trust.
    Monotonic = 2,
}

/// Returns `place` such that the processor cannot read from it before it has `ticks`.
///
/// The second read of the sequence number must come after the counter: an early read would miss a
/// writer that closed its window in between, and the reader would apply a later counter to an older
/// map. A second fence would have the same effect, for 3 ns; an address that depends on the counter
/// costs nothing.
#[inline(always)]
pub(crate) fn after<T>(ticks: u64, place: &T) -> &T {
    let zero = crate::arch::dependent_zero(ticks);
    // SAFETY: `zero` is zero, so this is `place`.
    unsafe { &*core::ptr::from_ref(place).wrapping_byte_add(zero) }
}
