//! A discrete-event engine whose clock is a map from another clock.
//!
//! - [`Engine`] runs a [`Model`]: it hands over [`Event`]s in a specified order (instant, node id,
//!   token, sequence) and takes new ones through its [`Agenda`].
//! - [`queue`] holds the scheduled events: [`queue::Wheel`], chosen by measurement.
//! - [`Pace`] limits the engine's progress: as fast as possible, by a `ClockMap` from wall time
//!   (real, dilated, paused), or up to an instant that another process has granted. [`Paced`] is an
//!   engine with a pace.
//! - [`Lateness`] is always recorded with a clock-mapped pace: the delay of each event after its
//!   instant, and the result that the run can be trusted or not.
//! - [`Random`] is the only source of randomness.
//!
//! The engine reads no clock, starts no thread and never sleeps: its caller passes in the wall time
//! and is told when to call again. [`Awake`] is for callers that must be woken in time.
#![forbid(unsafe_code)]

mod awake;
mod engine;
mod event;
mod lateness;
mod pace;
mod paced;
pub mod queue;
mod random;

pub use awake::Awake;
pub use engine::{Agenda, Engine, Model};
pub use event::{Event, NodeId};
pub use lateness::{Lateness, Limit};
pub use pace::{Pace, Wake};
pub use paced::Paced;
pub use random::Random;
