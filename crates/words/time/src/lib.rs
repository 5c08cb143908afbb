//! The vocabulary of time that all other crates use.
//!
//! A clock is a map from another clock. This crate contains only the four types for that:
//!
//! - [`Instant<S>`]: a point on a named [`Scale`]. Instants of different scales cannot be mixed;
//!   the compiler refuses.
//! - [`Duration`]: a signed length of time, in nanoseconds.
//! - [`Rate`]: units of one clock per unit of another, in exact 64.64 fixed point. Pause is rate 0;
//!   dilation by `f` is rate 1/f.
//! - [`ClockMap`]: `out0 + rate * (in - in0)`, the only conversion.
//!
//! The crate never reads a clock of the machine, allocates nothing and is `no_std`, because the
//! image that is mapped into guest programs uses it too.
//!
//! ```compile_fail
//! use timeloom_time::{Instant, Virtual, Wall};
//! let a = Instant::<Virtual>::from_ns(1);
//! let b = Instant::<Wall>::from_ns(1);
//! let _ = a - b; // virtual minus wall is meaningless
//! ```
#![cfg_attr(not(any(test, feature = "std")), no_std)]
#![forbid(unsafe_code)]

mod duration;
mod instant;
#[cfg(feature = "std")]
mod leap_seconds;
mod map;
mod rate;
#[cfg(feature = "std")]
mod text;

pub use duration::Duration;
pub use instant::{Core, Counter, Instant, Scale, Utc, Virtual, Wall};
#[cfg(feature = "std")]
pub use leap_seconds::{LeapSeconds, LeapSecondsError};
pub use map::ClockMap;
pub use rate::Rate;
#[cfg(feature = "std")]
pub use text::ParseTimeError;
