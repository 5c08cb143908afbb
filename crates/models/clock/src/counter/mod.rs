//! Conversion of cycle counters to time that is strictly increasing and precise (the SIP property
//! of the RVEC paper), although cores change frequency, counters wrap and tasks migrate.
//!
//! The chain has a file for each link:
//!
//! - [`Widener`] extends a narrow hardware counter to 63 bits.
//! - [`Rvec`] contains `base_count` and `age_time`, the paper's Figures 1 and 3.
//! - [`CoreClock`] is the clock of one core; it follows frequency changes and idle periods.
//! - [`TaskClock`] is the clock of one task. It counts the *time* of the core on which the task
//!   runs, so a frequency change updates one record per core and none per task.
//! - [`DrivenClock`] is the clock that a host's programs read, as a line between two frequency
//!   changes. The changes come from a list ([`FrequencyTrace`]) or from a [`Governor`].
//! - [`Strict`] and [`SharedStrict`] make readings strictly increasing, per thread or per process.
//!   They are needed for counters finer than a nanosecond and for cores whose clocks disagree.
//!
//! [`replay()`] runs the chain over a trace, and [`dvfs`] repeats the paper's experiments with it.
//!
//! [`SimulatedCore`] is the counter that needs no hardware: a [`Trace`] of frequencies, changes and
//! idle periods drives it.

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
    FrequencyChange, FrequencyError, FrequencyTrace, FrequencyTraceError, Governor, GovernorPolicy,
};
pub use replay::{ReplaySample, replay};
pub use rvec::Rvec;
pub use simulated::SimulatedCore;
pub use strict::{SharedStrict, Strict, StrictTime};
pub use task_clock::TaskClock;
pub use trace::{StageFault, StageKind, Trace, TraceError, TraceStage};
pub use widen::Widener;

use timeloom_time::Rate;

/// Hardware counter of cycles. Implementations that access hardware are in `timeloom-timeline`; this
/// crate has a simulated one.
pub trait CycleCounter {
    /// Returns the width of the counter in bits, 1 … 64; the counter wraps at 2^width.
    fn width_bits(&self) -> u32;

    /// Returns the counter's value in cycles, in the low [`Self::width_bits`] bits.
    fn cycles(&self) -> u64;
}

/// Frequency in whole hertz; never zero.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Frequency(core::num::NonZeroU64);

impl Frequency {
    /// Returns a frequency of `hz` hertz; `None` for 0.
    pub const fn from_hz(hz: u64) -> Option<Self> {
        match core::num::NonZeroU64::new(hz) {
            Some(hz) => Some(Self(hz)),
            None => None,
        }
    }

    /// Returns a frequency of `mhz` megahertz.
    ///
    /// # Panics
    /// Panics if `mhz` is 0 or above 1.8 * 10^13.
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

    /// Returns the nanoseconds per cycle, rounded down to a multiple of 2^-64 ns.
    pub const fn period(self) -> Rate {
        match Rate::from_ratio(1_000_000_000, self.0.get()) {
            Some(period) => period,
            None => Rate::STOPPED,
        }
    }
}
