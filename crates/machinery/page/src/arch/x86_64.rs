//! x86-64: the time-stamp counter.

/// The time-stamp counter, read after every earlier load has completed.
///
/// A reader must not take the counter before it has seen the page's sequence
/// number, nor a writer before its "closed" mark is visible. `lfence; rdtsc` is
/// what Intel's manual gives for the former, and with the full fence that the
/// writer puts before it, for the latter; AMD's `lfence` does the same where
/// Linux runs, which switches that on. (`rdtscp` would do as well, and took 2 ns
/// longer on a Zen 5.) What comes *later* in the program may still be executed
/// earlier; for that see [`dependent_zero`].
#[inline(always)]
pub fn ticks_ordered() -> u64 {
    let (low, high): (u32, u32);
    // SAFETY: both touch no memory. The asm is a compiler barrier as well,
    // because it is not marked `nomem`.
    unsafe {
        core::arch::asm!(
            "lfence",
            "rdtsc",
            out("eax") low,
            out("edx") high,
            options(nostack, preserves_flags),
        );
    }
    (u64::from(high) << 32) | u64::from(low)
}

/// Zero, which the processor does not know before it has `ticks`. (`and` with
/// zero is not among the idioms that processors know to need no input.)
#[inline(always)]
pub(crate) fn dependent_zero(ticks: u64) -> usize {
    let mut zero = ticks;
    // SAFETY: plain arithmetic in a register.
    unsafe { core::arch::asm!("and {}, 0", inout(reg) zero, options(nomem, nostack)) };
    zero as usize
}
