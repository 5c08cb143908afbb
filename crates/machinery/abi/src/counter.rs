//! Cycle counter that the page's clock maps take as input.

pub use crate::arch::ticks_ordered;

/// Counter from which readers of a page compute the time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum CounterKind {
    /// The processor's counter: the invariant time-stamp counter of x86-64, or the generic timer of
    /// 64-bit ARM. Read with [`ticks_ordered`].
    Tsc = 1,
    /// CLOCK_MONOTONIC in nanoseconds, read by a system call. It is slow but always correct, for
    /// machines whose processor counter the kernel does not trust.
    Monotonic = 2,
}

/// Returns `place` such that the processor cannot read from it before it has read `ticks`.
///
/// A reader must read the sequence number again after it has read the counter. If the processor did
/// this early, the reader would miss a writer that closed its window in between, and would apply a
/// later counter value to an older map. A second fence would have the same effect, for 3 ns; an
/// address that depends on the counter costs nothing.
#[inline(always)]
pub(crate) fn after<T>(ticks: u64, place: &T) -> &T {
    let zero = crate::arch::dependent_zero(ticks);
    // SAFETY: `zero` is zero, so this is `place`.
    unsafe { &*core::ptr::from_ref(place).wrapping_byte_add(zero) }
}
