//! x86-64: the time-stamp counter.

/// Reads the time-stamp counter after every earlier load has completed.
///
/// A reader must not read the counter before it has read the page's sequence number, nor a writer
/// before its "closed" mark is visible. Intel's manual gives `lfence; rdtsc` for the former, and,
/// with the full fence that the writer executes before, for the latter; AMD's `lfence` does the
/// same under Linux, which enables that. (`rdtscp` is equivalent, and took 2 ns longer on a Zen 5.)
/// *Later* instructions may still be executed earlier; for those see [`dependent_zero`].
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

/// Returns zero, which the processor does not know before it has `ticks`. (`and` with zero is not
/// one of the idioms that processors treat as independent of their input.)
#[inline(always)]
pub(crate) fn dependent_zero(ticks: u64) -> usize {
    let mut zero = ticks;
    // SAFETY: plain arithmetic in a register.
    unsafe { core::arch::asm!("and {}, 0", inout(reg) zero, options(nomem, nostack)) };
    zero as usize
}
