//! Types for instants, lengths of time, rates and clocks, used by all other crates.
//!
//! Every clock is described as a linear map from another clock. This crate contains the five types
//! that are needed for that:
//!
//! - [`Instant<S>`]: a point on a named [`Scale`]. The compiler rejects arithmetic that mixes
//!   instants of different scales.
//! - [`Duration`]: a signed length of time, in nanoseconds.
//! - [`Rate`]: units of one clock per unit of another, in exact 64.64 fixed point. A paused clock
//!   has rate 0; a clock dilated by `f` has rate 1/f.
//! - [`Dilation`]: the factor by which a clock is slowed, within bounds.
//! - [`ClockMap`]: `out0 + rate * (in - in0)`, the only conversion between scales.
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
// Conversions state their result (see `convert`). Tests count in small numbers.
#![cfg_attr(
    not(test),
    warn(
        clippy::cast_possible_truncation,
        clippy::cast_possible_wrap,
        clippy::cast_sign_loss,
        clippy::cast_lossless
    )
)]

pub mod convert;
mod dilation;
mod duration;
mod instant;
#[cfg(feature = "std")]
mod leap_seconds;
mod map;
mod rate;
#[cfg(feature = "std")]
mod text;

pub use dilation::Dilation;
pub use duration::Duration;
pub use instant::{Core, Counter, Instant, Scale, Utc, Virtual, Wall};
#[cfg(feature = "std")]
pub use leap_seconds::{LeapSeconds, LeapSecondsError};
pub use map::ClockMap;
pub use rate::Rate;
#[cfg(feature = "std")]
pub use text::ParseTimeError;
