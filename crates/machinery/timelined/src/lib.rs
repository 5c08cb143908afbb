//! The daemon of timelines: it connects the models of `timeloom-clock` with the pages of
//! `timeloom-timeline`.
//!
//! - [`serve()`] runs the daemon: a thread per timeline ([`TimelineHandle`]), which owns its
//!   estimator and its pages, a thread per source that polls at the estimator's request, and a
//!   thread per client.
//! - [`source`] adapts sources of time, such as the system clock, chronyd or a PTP slave.
//!
//! [`vm`] brings timelines into virtual machines. The client library and the protocol between client
//! and daemon are in `timeloom-timeline`. The programs `timeloom timeline` and `timeloom vm` and the
//! runs of scenarios call this crate.
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
pub mod vm;
mod worker;

pub use handle::TimelineHandle;
pub use local_clock::LocalClock;
pub use serve::{Daemon, DaemonError, serve};
