//! Processor-specific code. Each module provides
//!
//! - `syscall`, and `own_nr` with the numbers of calls that the table does not have;
//! - `Context`, the argument of a signal handler;
//! - the entry points in assembly: `timeloom_restorer`, `timeloom_syscall`, `timeloom_wait`,
//!   `timeloom_intercepted`, and the names under which a vDSO exports its functions;
//! - `time`, `poll` and others, for calls that newer architectures do not have;
//! - `prctl` and `is_emulated`, for the emulated time-stamp counter;
//! - `frame`, which returns the beginning of a signal's frame;
//! - `AUDIT_ARCH`, by which a filter identifies the architecture;
//! - C's memory functions, which compilers rely on. There is no C library inside the image, and a
//!   loop would be compiled into a call of itself.

#[cfg(target_arch = "aarch64")]
mod aarch64;
#[cfg(target_arch = "x86_64")]
mod x86_64;

#[cfg(target_arch = "aarch64")]
pub(crate) use aarch64::*;
#[cfg(target_arch = "x86_64")]
pub(crate) use x86_64::*;

#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
compile_error!("the image exists for x86-64 and 64-bit ARM only, so far");
