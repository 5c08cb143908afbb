//! The cycle counter that the maps start from.

/// Which counter the page's maps take as input.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum CounterKind {
    /// The processor's invariant time-stamp counter, read with `rdtscp`.
    Tsc = 1,
    /// CLOCK_MONOTONIC in nanoseconds, by a system call. The slow but always
    /// right choice for machines whose TSC the kernel does not trust.
    Monotonic = 2,
}

/// The time-stamp counter, read after every earlier load has completed.
///
/// The order matters on both sides: a reader must not take the counter before
/// it has seen the page's sequence number, nor a writer before its "closed"
/// mark is visible. `rdtscp` waits for earlier loads; the `lfence` behind it
/// keeps later loads from passing it.
#[cfg(target_arch = "x86_64")]
#[inline(always)]
pub fn ticks_ordered() -> u64 {
    let (low, high): (u32, u32);
    // SAFETY: rdtscp and lfence touch no memory; ecx (the processor's number)
    // is declared as overwritten. The asm is a compiler barrier as well,
    // because it is not marked `nomem`.
    unsafe {
        core::arch::asm!(
            "rdtscp",
            "lfence",
            out("eax") low,
            out("edx") high,
            out("ecx") _,
            options(nostack, preserves_flags),
        );
    }
    (u64::from(high) << 32) | u64::from(low)
}
