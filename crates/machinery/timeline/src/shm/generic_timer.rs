//! Generic timer of ARM processors, as a counter for RVEC.

use timeloom_clock::counter::{CycleCounter, Frequency};

/// Counter CNTVCT_EL0. It has the same rate on all cores and at any core frequency, and does not
/// stop while a core is idle (ARM ARM, D12). Linux permits user programs to read it.
#[derive(Clone, Copy, Debug, Default)]
pub struct GenericTimer;

impl GenericTimer {
    /// Returns the counter's rate, which the firmware sets; `None` if it is not set.
    pub fn frequency(self) -> Option<Frequency> {
        let hz: u64;
        // SAFETY: the instruction reads a register and touches no memory.
        unsafe { core::arch::asm!("mrs {}, cntfrq_el0", out(reg) hz, options(nomem, nostack)) };
        Frequency::from_hz(hz & 0xffff_ffff)
    }
}

impl CycleCounter for GenericTimer {
    /// Returns 56, the width that the architecture guarantees.
    fn width_bits(&self) -> u32 {
        56
    }

    fn cycles(&self) -> u64 {
        let count: u64;
        // SAFETY: as above. `isb` orders the reading after earlier instructions. Without the option
        // `nomem` the compiler keeps that order too.
        unsafe { core::arch::asm!("isb", "mrs {}, cntvct_el0", out(reg) count, options(nostack)) };
        count & (u64::MAX >> 8)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_generic_timer_counts() {
        let before = GenericTimer.cycles();
        std::thread::sleep(core::time::Duration::from_millis(2));
        assert!(GenericTimer.cycles() > before);
        assert!(GenericTimer.frequency().is_some());
    }
}
