//! The daemon of timelines: it connects the models of `timeloom-clock` with the pages of
//! `timeloom-publish`.
//!
//! - [`serve()`] runs the daemon: a thread per timeline ([`Timeline`]) that owns its estimator and
//!   its pages, a thread per source that polls at the estimator's request, and a thread per client.
//! - [`source`] adapts sources of time, such as the system clock, chronyd or a PTP slave.
//!
//! The client library is `timeloom-timeline-client`; the protocol between client and daemon is in
//! `timeloom-timeline-protocol`.
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
pub use serve::{Daemon, DaemonError, serve};
