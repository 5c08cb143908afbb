//! x86-64: the time-stamp counter.

/// Reads the time-stamp counter after every earlier load has completed.
///
/// A reader must read the page's sequence number before the counter. A writer must make its
/// "closed" mark visible before it reads the counter. For readers, Intel's manual gives `lfence;
/// rdtsc`; for writers, the same after the full fence that the writer executes. AMD's `lfence` has
/// this effect too, once Linux has enabled it. (`rdtscp` is equivalent, and took 2 ns longer on a
/// Zen 5.) The processor may still execute *later* instructions before the read; [`dependent_zero`]
/// prevents that.
#[inline(always)]
pub fn ticks_ordered() -> u64 {
    let (low, high): (u32, u32);
    // SAFETY: both instructions access no memory. The asm is also a compiler barrier, because it is
    // not marked `nomem`.
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

/// Returns zero, computed from `ticks`, so that the processor cannot know it before it has read
/// `ticks`. (`and` with zero is not an idiom that processors treat as independent of its input.)
#[inline(always)]
pub(crate) fn dependent_zero(ticks: u64) -> usize {
    let mut zero = ticks;
    // SAFETY: plain arithmetic in a register.
    unsafe { core::arch::asm!("and {}, 0", inout(reg) zero, options(nomem, nostack)) };
    zero as usize
}
