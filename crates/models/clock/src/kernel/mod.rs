//! Clock of a Linux kernel, as steered by `adjtimex` and related calls.
//!
//! A kernel counts an oscillator (CLOCK_MONOTONIC_RAW, here the scale [`Core`](crate::Core)) and
//! derives CLOCK_MONOTONIC from it by a rate that the NTP discipline sets, at every second of
//! CLOCK_REALTIME at the earliest; CLOCK_REALTIME is CLOCK_MONOTONIC plus an offset that only a
//! step or a leap second changes. [`Ntp`](ntp::Ntp) is the discipline, [`KernelClock`] the clock
//! around it.
//!
//! The behaviour is that of Linux (adjtimex(2), RFC 5905 appendix A.5 as Linux deviates from it),
//! including return values, error numbers and the order of the checks. `tests/all/kernel_trace.rs`
//! compares it with a recording of a real kernel. Two things are left out: pulse-per-second
//! discipline, and the delay of a new rate until the kernel's next tick, a few milliseconds.
//!
//! Used by the guest supervisor, for the clock of each host.

mod clock;
mod ntp;
mod timex;

pub use clock::{Adjusted, KernelClock, KernelClockOptions, MonotonicLine};
pub use timex::{Errno, Timex, modes, state, status};
