//! Simulated cycle counter of a core.

use timeloom_time::convert::low_u64;

use super::{CycleCounter, Frequency};

/// Cycle counter of a simulated core, whose true time is known. By default it has 32 bits like the
/// ARM1176's CCNT, and wraps every 5.4 s at 800 MHz.
#[derive(Clone, Debug)]
pub struct SimulatedCore {
    /// Cycles so far, in units of 10^-12 cycles (hertz times picoseconds), so that advancing never
    /// rounds.
    progress: u128,
    width_bits: u32,
}

impl SimulatedCore {
    /// Returns a 32-bit counter with the value `start`.
    pub fn new(start: u32) -> Self {
        Self::with_width(u64::from(start), 32)
    }

    /// Returns a counter of `width_bits` bits with the value `start`.
    pub fn with_width(start: u64, width_bits: u32) -> Self {
        Self {
            progress: u128::from(start) * PER_CYCLE,
            width_bits,
        }
    }

    /// Advances true time by `length_ps` picoseconds. The core runs at `frequency`; `None` is an
    /// idle core, whose counter is stopped.
    pub fn advance(&mut self, length_ps: u64, frequency: Option<Frequency>) {
        let hz = frequency.map_or(0, Frequency::as_hz);
        self.progress += u128::from(length_ps) * u128::from(hz);
    }
}

impl CycleCounter for SimulatedCore {
    fn width_bits(&self) -> u32 {
        self.width_bits
    }

    fn cycles(&self) -> u64 {
        low_u64(self.progress / PER_CYCLE) & (u64::MAX >> (64 - self.width_bits))
    }
}

/// Units of `progress` per cycle.
const PER_CYCLE: u128 = 1_000_000_000_000;
