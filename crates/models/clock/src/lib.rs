//! Clocks with error bounds, as models that read no real clock.
//!
//! The crate combines two of the project's papers. RVEC ("a strictly increasing and precise virtual
//! system clock") converts a cycle counter of changing frequency into time that never repeats and
//! never goes back: [`counter`]. Quality of Time (QuartzV) converts such a free-running clock into
//! a *timeline* that a group of hosts shares, with an error bound for every reading: [`quality`],
//! [`timeline`].
//!
//! Programs usually read a third kind of clock, that of a Linux kernel steered by `adjtimex`:
//! [`kernel`]. It counts an oscillator with errors ([`host`]), on a host for which less time may
//! pass than for other hosts ([`host_time_map`]). The host's network card may have a clock, too
//! ([`card`]).
//!
//! All code is free of input and output: instants, samples and randomness are arguments, and the
//! result is an [`EstimatorAction`](timeline::EstimatorAction). So [`world`] can run a timeline on
//! a simulated oscillator behind a lossy path, where true time is *known*, and check that every
//! interval contains it.
//!
//! The crate reads no clock, starts no thread and opens no socket. `timeloom-timeline` and the
//! daemon do.
#![forbid(unsafe_code)]
// Conversions state their result (see `timeloom_time::convert`). Tests count in small numbers.
#![cfg_attr(
    not(test),
    warn(
        clippy::cast_possible_truncation,
        clippy::cast_possible_wrap,
        clippy::cast_sign_loss,
        clippy::cast_lossless
    )
)]

pub mod card;
pub mod counter;
pub mod host;
pub mod host_time_map;
pub mod kernel;
pub mod ntp_steps;
pub mod oscillator;
pub mod quality;
mod rate_error;
mod scale;
pub mod timeline;
pub mod world;

pub use rate_error::{ParseRateError, RateError};
pub use scale::{CardTime, HostTime, Monotonic, Oscillation, TimelineTime};
pub use timeloom_time::Core;
