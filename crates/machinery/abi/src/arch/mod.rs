//! Processor-specific code for ordered reads of the counter. Each module provides `ticks_ordered`
//! and `dependent_zero`.

#[cfg(all(not(miri), target_arch = "aarch64"))]
mod aarch64;
#[cfg(miri)]
mod interpreted;
#[cfg(all(not(miri), target_arch = "x86_64"))]
mod x86_64;

#[cfg(all(not(miri), target_arch = "aarch64"))]
pub use aarch64::*;
#[cfg(miri)]
pub use interpreted::*;
#[cfg(all(not(miri), target_arch = "x86_64"))]
pub use x86_64::*;

#[cfg(not(any(miri, target_arch = "x86_64", target_arch = "aarch64")))]
compile_error!("no counter is known for this processor: x86-64 and 64-bit ARM only, so far");
