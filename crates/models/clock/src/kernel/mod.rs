//! Clocks of a Linux kernel, steered by `adjtimex` and related system calls.
//!
//! A kernel counts an oscillator (CLOCK_MONOTONIC_RAW, here the scale [`Core`](crate::Core)) and
//! derives CLOCK_MONOTONIC from the count. The NTP discipline sets the rate of CLOCK_MONOTONIC, at
//! most once in each second of CLOCK_REALTIME. CLOCK_REALTIME is CLOCK_MONOTONIC plus an offset
//! that only a step or a leap second changes. [`Ntp`](ntp::Ntp) is the discipline, and
//! [`KernelClock`] contains the clocks.
//!
//! The behaviour is that of Linux (adjtimex(2); RFC 5905, appendix A.5, with Linux's deviations),
//! including return values, error numbers and the order of checks. `tests/all/kernel_trace.rs`
//! compares it with a recording of a real kernel. Two things are not modelled: the pulse-per-second
//! discipline, and the delay of a few milliseconds until a new rate takes effect at the kernel's
//! next tick.
//!
//! The guest supervisor uses this model for the clocks of each host.

mod clock;
mod ntp;
mod timex;

pub use clock::{Adjustment, KernelClock, KernelClockOptions, MonotonicLine};
pub use timex::{Errno, Timex, modes, state, status};
