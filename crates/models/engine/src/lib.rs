//! A discrete-event engine whose clock is a map from another clock.
//!
//! - [`Engine`] runs a [`Model`]: it passes [`Event`]s to the model in a specified order (instant,
//!   node id, token, sequence number), and the model schedules new ones through its [`Agenda`].
//! - [`queue`] holds the scheduled events. The queue in use, [`queue::Wheel`], was chosen by
//!   measurement.
//! - [`Pace`] limits the engine's progress in virtual time. There are three kinds: no limit (as
//!   fast as possible), a `ClockMap` from wall time (real, dilated or paused), or an instant that
//!   another process has granted. [`Paced`] is an engine with a pace.
//! - [`Lateness`] is always recorded at a clock-mapped pace: the delay of each event after its
//!   instant, and the verdict on the run's trustworthiness.
//! - [`Random`] is the only source of random numbers.
//!
//! The engine reads no clock, starts no thread and never sleeps: the caller passes the wall time
//! in, and the engine returns when to call again. [`Awake`] helps callers that must be woken in
//! time.
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

mod awake;
mod engine;
mod event;
mod lateness;
mod pace;
mod paced;
pub mod queue;

pub use awake::Awake;
pub use engine::{Agenda, Engine, Model};
pub use event::{Event, NodeId};
pub use lateness::{Lateness, Limit};
pub use pace::{Pace, Wake};
pub use paced::Paced;
pub use timeloom_random::Random;
