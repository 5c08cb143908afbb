//! Layout of a `struct timex` in a guest's memory.

use timeloom_clock::kernel::Timex;

use crate::linux::remote::Plain;

/// `struct timex`, with names for its padding. The guest's data in the padding is returned
/// unchanged, as natively, and no data of this process leaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
pub(crate) struct RawTimex {
    pub(super) modes: u32,
    gap_after_modes: i32,
    offset: i64,
    pub(super) freq: i64,
    maxerror: i64,
    esterror: i64,
    status: i32,
    gap_after_status: i32,
    constant: i64,
    precision: i64,
    tolerance: i64,
    time_s: i64,
    time_part: i64,
    tick: i64,
    ppsfreq: i64,
    jitter: i64,
    shift: i32,
    gap_after_shift: i32,
    stabil: i64,
    jitcnt: i64,
    calcnt: i64,
    errcnt: i64,
    stbcnt: i64,
    tai: i32,
    unused: [i32; 11],
}

const _: () = assert!(size_of::<RawTimex>() == size_of::<libc::timex>());

// SAFETY: the structure consists of numbers without padding.
unsafe impl Plain for RawTimex {}

impl RawTimex {
    /// Returns the request that the structure contains.
    pub(super) fn request(&self) -> Timex {
        Timex {
            modes: self.modes,
            offset: self.offset,
            freq: self.freq,
            maxerror: self.maxerror,
            esterror: self.esterror,
            status: self.status,
            constant: self.constant,
            precision: 0,
            tolerance: 0,
            time_s: self.time_s,
            time_part: self.time_part,
            tick: self.tick,
            tai: 0,
        }
    }

    /// Returns the structure with the results of the request.
    pub(super) fn answered(self, timex: &Timex) -> Self {
        Self {
            offset: timex.offset,
            freq: timex.freq,
            maxerror: timex.maxerror,
            esterror: timex.esterror,
            status: timex.status,
            constant: timex.constant,
            precision: timex.precision,
            tolerance: timex.tolerance,
            time_s: timex.time_s,
            time_part: timex.time_part,
            tick: timex.tick,
            tai: timex.tai,
            // Without a pulse-per-second source the kernel returns zeroes.
            ppsfreq: 0,
            jitter: 0,
            shift: 0,
            stabil: 0,
            jitcnt: 0,
            calcnt: 0,
            errcnt: 0,
            stbcnt: 0,
            ..self
        }
    }
}
