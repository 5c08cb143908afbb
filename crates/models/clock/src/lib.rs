//! Clocks that know how good they are: models that read no clock.
//!
//! Two of the project's papers meet here. RVEC ("a strictly increasing and
//! precise virtual system clock") turns a cycle counter whose frequency changes
//! into time that never repeats and never goes back: [`counter`]. Quality of
//! Time (QuartzV) turns such a free-running clock into a *timeline* that a
//! group of hosts shares, and tells with every reading how far it may be from
//! true: [`quality`], [`timeline`].
//!
//! A third clock is the one that programs are used to: the clock of a Linux
//! kernel, which `adjtimex` steers ([`kernel`]), on a crystal that errs ([`host`]), at a
//! host that may live through less time than the others ([`course`]).
//!
//! Everything is sans-IO: instants, samples and randomness come in as
//! arguments, what is to be done comes out as an [`Action`](timeline::Action).
//! So [`world`] can put a timeline on a simulated oscillator behind a lossy
//! path, where true time is *known*, and prove that every interval contains it.
//!
//! What it is not: a reader of any clock, a thread, a socket. Those are in
//! `timeloom-publish` and in the daemon.
#![forbid(unsafe_code)]

pub mod counter;
pub mod course;
pub mod host;
pub mod kernel;
pub mod noise;
pub mod ntp_steps;
pub mod oscillator;
pub mod quality;
mod rate_error;
mod scale;
pub mod timeline;
pub mod world;

pub use rate_error::RateError;
pub use scale::{Lived, Monotonic, Oscillation, Timeline};
pub use timeloom_time::Core;
