//! The clock of a Linux kernel: what `adjtimex` and its relatives do to it.
//!
//! A kernel counts an oscillator (CLOCK_MONOTONIC_RAW, here the scale
//! [`Core`](crate::Core)) and makes CLOCK_MONOTONIC of it by a rate that the
//! NTP discipline sets, anew at every second of CLOCK_REALTIME at the earliest;
//! CLOCK_REALTIME is CLOCK_MONOTONIC plus an offset that only a step or a leap
//! second changes. [`Ntp`](ntp::Ntp) is the discipline, [`KernelClock`] the
//! clock around it.
//!
//! The behaviour is that of Linux (adjtimex(2), RFC 5905 appendix A.5 as
//! Linux deviates from it), including return values, error numbers and the
//! order in which they are found. `tests/all/kernel_trace.rs` compares it with a
//! recording of a real kernel. Two things are left out: pulse-per-second
//! discipline, and that a kernel puts a new rate in force at its next tick, a
//! few milliseconds later than asked.
//!
//! Who calls it: the guest supervisor, for the clock of each host.

mod clock;
mod ntp;
mod timex;

pub use clock::{Adjusted, KernelClock, KernelClockOptions, MonotonicLine};
pub use timex::{Errno, Timex, modes, state, status};
