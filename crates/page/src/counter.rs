//! The cycle counter that the maps start from.

/// Which counter the page's maps take as input.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum CounterKind {
    /// The processor's invariant time-stamp counter, read with `rdtsc`.
    Tsc = 1,
    /// CLOCK_MONOTONIC in nanoseconds, by a system call. The slow but always
    /// right choice for machines whose TSC the kernel does not trust.
    Monotonic = 2,
}

/// The time-stamp counter, read after every earlier load has completed.
///
/// A reader must not take the counter before it has seen the page's sequence
/// number, nor a writer before its "closed" mark is visible. `lfence; rdtsc` is
/// what Intel's manual gives for the former, and with the full fence that the
/// writer puts before it, for the latter; AMD's `lfence` does the same where
/// Linux runs, which switches that on. (`rdtscp` would do as well, and took 2 ns
/// longer on a Zen 5.) What comes *later* in the program may still be executed
/// earlier; for that see [`after`].
#[cfg(target_arch = "x86_64")]
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

/// `place`, such that the processor cannot read from it before it has `ticks`.
///
/// The second look at the sequence number must come after the counter: a look
/// that ran ahead would miss a writer that closed its window in between, and the
/// reader would put a later counter into an older map. A second `lfence` would
/// do, for 3 ns; an address that depends on the counter costs nothing. (`and`
/// with zero is not among the idioms that processors know to need no input.)
#[cfg(target_arch = "x86_64")]
#[inline(always)]
pub(crate) fn after<T>(ticks: u64, place: &T) -> &T {
    let mut zero = ticks;
    // SAFETY: plain arithmetic in a register.
    unsafe { core::arch::asm!("and {}, 0", inout(reg) zero, options(nomem, nostack)) };
    // SAFETY: `zero` is zero, so this is `place`.
    unsafe { &*core::ptr::from_ref(place).wrapping_byte_add(zero as usize) }
}

/// The generic timer, read after every earlier load has completed.
#[cfg(target_arch = "aarch64")]
#[inline(always)]
pub fn ticks_ordered() -> u64 {
    let count: u64;
    // SAFETY: both touch no memory, and Linux lets programs read the register. A
    // compiler barrier as well, because it is not marked `nomem`.
    unsafe { core::arch::asm!("isb", "mrs {}, cntvct_el0", out(reg) count, options(nostack)) };
    count
}

/// As on the other architecture: an address that depends on the counter.
#[cfg(target_arch = "aarch64")]
#[inline(always)]
pub(crate) fn after<T>(ticks: u64, place: &T) -> &T {
    let mut zero = ticks;
    // SAFETY: plain arithmetic in a register.
    unsafe { core::arch::asm!("and {0}, {0}, xzr", inout(reg) zero, options(nomem, nostack)) };
    // SAFETY: `zero` is zero, so this is `place`.
    unsafe { &*core::ptr::from_ref(place).wrapping_byte_add(zero as usize) }
}
