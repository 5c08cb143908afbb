//! Counters on which the line of a page can be based.

use std::fmt;

use timeloom_clock::Core;
use timeloom_sys::clock::{ClockId, read_ns};
use timeloom_time::{ClockMap, Counter, Instant, Rate};

/// Map from the counter's ticks to nanoseconds of the core clock. It is a fixed linear function
/// with the counter's nominal rate, and is created once when the writer starts.
pub type CoreScale = ClockMap<Counter, Core>;

/// Counter from which readers compute a timeline.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum PageCounter {
    /// The processor's time-stamp counter.
    Tsc = 1,
    /// The machine's CLOCK_MONOTONIC in nanoseconds, used if the kernel does not trust the
    /// processor's counter.
    Monotonic = 2,
    /// CLOCK_MONOTONIC_RAW of a host of a session, in nanoseconds, as read by the host's guests. It
    /// is the host's oscillator, which no daemon steers and which a pause of the session does not
    /// advance.
    HostRaw = 3,
}

impl PageCounter {
    /// Returns the counter with this number in a page; `None` if this build cannot read it.
    pub(crate) fn from_number(number: u32) -> Option<Self> {
        match number {
            1 if cfg!(target_arch = "x86_64") => Some(Self::Tsc),
            2 => Some(Self::Monotonic),
            3 => Some(Self::HostRaw),
            _ => None,
        }
    }
}

impl fmt::Display for PageCounter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Tsc => "the processor's counter",
            Self::Monotonic => "CLOCK_MONOTONIC",
            Self::HostRaw => "the host's oscillator (CLOCK_MONOTONIC_RAW)",
        })
    }
}

/// Reads `counter`. The reading is ordered after all earlier loads.
#[inline(always)]
pub fn now_ticks(counter: PageCounter) -> u64 {
    match counter {
        #[cfg(target_arch = "x86_64")]
        PageCounter::Tsc => timeloom_abi::ticks_ordered(),
        PageCounter::HostRaw => read_ns(ClockId::MonotonicRaw) as u64,
        _ => read_ns(ClockId::Monotonic) as u64,
    }
}

/// Returns the map of a counter that already counts nanoseconds.
pub(crate) fn nanoseconds() -> CoreScale {
    ClockMap::new(Instant::ZERO, Instant::ZERO, Rate::ONE)
}
