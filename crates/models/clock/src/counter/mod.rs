//! Conversion of cycle counters to time that is strictly increasing and precise (the SIP property
//! of the RVEC paper), although cores change frequency, counters wrap and tasks migrate.
//!
//! The chain, with a file for each link:
//!
//! 1. [`Widener`]: a narrow hardware counter extended to 63 bits.
//! 2. [`Rvec`]: `base_count` and `age_time`, the paper's Figures 1 and 3.
//! 3. [`CoreClock`]: one per core; it follows frequency changes and idling.
//! 4. [`TaskClock`]: one per task; it counts in the *time* of the core it runs
//!    on, so a frequency change touches one record per core and none per task.
//! 5. [`DrivenClock`]: such a clock as the line that a host's programs read, over changes from a
//!    list ([`FrequencyTrace`]) or by a [`Governor`].
//! 6. [`Strict`] and [`SharedStrict`]: strictly increasing readings, per thread or per process, for
//!    a counter finer than a nanosecond or cores that disagree.
//!
//! [`replay()`] runs the chain over a trace, and [`dvfs`] repeats the paper's
//! experiments with it.
//!
//! [`SimulatedCore`] is the back end that needs no hardware: a counter driven by
//! a [`Trace`] of frequencies, switches and idling.

mod age;
mod core_clock;
mod driven;
pub mod dvfs;
mod frequencies;
mod replay;
mod rvec;
mod simulated;
mod strict;
mod task_clock;
mod trace;
mod widen;

pub use age::Age;
pub use core_clock::{CoreClock, CoreTime};
pub use driven::{CycleOptions, DrivenClock, FrequencySource};
pub use frequencies::{
    FrequencyChange, FrequencyError, FrequencyTrace, FrequencyTraceError, Governor, Policy,
};
pub use replay::{Sample, replay};
pub use rvec::Rvec;
pub use simulated::SimulatedCore;
pub use strict::{SharedStrict, Strict, StrictTime};
pub use task_clock::TaskClock;
pub use trace::{Stage, StageFault, StageKind, Trace, TraceError};
pub use widen::Widener;

use timeloom_time::Rate;

/// Hardware counter of cycles. Back ends that access hardware are in `timeloom-publish`; this crate
/// has a simulated one.
pub trait CycleCounter {
    /// Returns the number of bits of the counter before it wraps: 1 … 64.
    fn width_bits(&self) -> u32;

    /// Returns the counter's value, in cycles, in the low [`Self::width_bits`] bits.
    fn cycles(&self) -> u64;
}

/// Frequency in whole hertz, never zero.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Frequency(core::num::NonZeroU64);

impl Frequency {
    /// Returns `hz` hertz; `None` for 0.
    pub const fn from_hz(hz: u64) -> Option<Self> {
        match core::num::NonZeroU64::new(hz) {
            Some(hz) => Some(Self(hz)),
            None => None,
        }
    }

    /// Returns `mhz` megahertz.
    ///
    /// # Panics
    /// Panics for 0 and beyond 1.8 * 10^13.
    pub const fn from_mhz(mhz: u64) -> Self {
        match Self::from_hz(mhz * 1_000_000) {
            Some(frequency) => frequency,
            None => panic!("a frequency of zero"),
        }
    }

    /// Returns the frequency in hertz.
    pub const fn as_hz(self) -> u64 {
        self.0.get()
    }

    /// Returns the nanoseconds per cycle, rounded down to 2^-64 ns.
    pub const fn period(self) -> Rate {
        match Rate::from_ratio(1_000_000_000, self.0.get()) {
            Some(period) => period,
            None => Rate::STOPPED,
        }
    }
}
