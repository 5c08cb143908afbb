//! 64-bit ARM: the generic timer.

/// Reads CNTVCT_EL0 after every earlier load has completed: no instruction after `isb` begins
/// before it (Arm ARM, D11.2.2, on reading the counters). Linux lets programs read the register.
#[inline(always)]
pub fn ticks_ordered() -> u64 {
    let count: u64;
    // SAFETY: both instructions access no memory. The asm is also a compiler barrier, because it is
    // not marked `nomem`.
    unsafe { core::arch::asm!("isb", "mrs {}, cntvct_el0", out(reg) count, options(nostack)) };
    count
}

/// Returns zero for every value of `ticks`. The result has an address dependency on `ticks`, as the
/// architecture defines it (Arm ARM, B2.3.3).
#[inline(always)]
pub(crate) fn dependent_zero(ticks: u64) -> usize {
    let mut zero = ticks;
    // SAFETY: plain arithmetic in a register.
    unsafe {
        core::arch::asm!("and {0}, {0}, xzr", inout(reg) zero,
            options(nomem, nostack, preserves_flags));
    };
    zero as usize
}
