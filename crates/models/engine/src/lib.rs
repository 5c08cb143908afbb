//! A discrete-event engine whose clock is a map from another clock.
//!
//! - [`Engine`] runs a [`Model`]: it hands over [`Event`]s in a written order
//!   (instant, node id, token, sequence) and takes new ones through its [`Agenda`].
//! - [`queue`] holds what is scheduled: [`queue::Wheel`], chosen by measurement.
//! - [`Pace`] says how far the engine may go: as fast as possible, as a
//!   `ClockMap` from wall time says (real, dilated, paused), or as far as
//!   somebody outside has granted. [`Paced`] is an engine with a pace.
//! - [`Lateness`] is always on with a clock-mapped pace: how long after its
//!   instant each event was handled, and whether the run can be trusted.
//! - [`Random`] is where all chance comes from.
//!
//! The engine reads no clock, starts no thread and never sleeps: its caller
//! hands in the wall time and is told when to come back. [`Awake`] is for callers
//! who have to come back in time.
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
