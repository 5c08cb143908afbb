//! The daemon that keeps timelines: what stands between the models of
//! `timeloom-clock` and the pages of `timeloom-publish`.
//!
//! - [`serve()`] runs it: a thread per timeline that owns its keeper and its
//!   pages ([`keep`](crate::Timeline)), a thread per source that asks when the
//!   keeper wants to know, a thread per client.
//! - [`source`] adapts what knows the time: the system clock, and others.
//!
//! What it is not: the program's side, which is `timeloom-timeline-client`; both
//! know what they say to each other from `timeloom-timeline-protocol`.
#![forbid(unsafe_code)]

mod clients;
pub mod config;
#[doc(hidden)]
pub mod fuzzing;
mod handle;
mod local_clock;
mod outputs;
mod serve;
pub mod source;
mod status_journal;
mod step_watch;
mod subscriber;
mod worker;

pub use handle::Timeline;
pub use local_clock::LocalClock;
pub use serve::{Daemon, ServeError, serve};
