//! The daemon that keeps timelines: what stands between the models of
//! `timeloom-clock` and the pages of `timeloom-publish`.
//!
//! - [`serve()`] runs it: a thread per timeline that owns its keeper and its
//!   pages ([`keep`](crate::Timeline)), a thread per source that asks when the
//!   keeper wants to know, a thread per client.
//! - [`source`] adapts what knows the time: the system clock, and others.
//! - [`protocol`] is what programs and daemon say to each other, [`Connection`]
//!   the plain way to say it, [`Directory`] where they meet.
//!
//! What it is not: the reader's side. Reading a timeline is
//! `timeloom_publish::PageReader` on the page that the daemon hands over, and
//! needs no daemon.
#![forbid(unsafe_code)]

mod client;
pub mod config;
mod host_clock;
mod keep;
mod look;
mod name;
mod outputs;
mod packet;
pub mod protocol;
mod rendezvous;
mod serve;
pub mod source;
mod step_watch;

pub use client::{ClientError, Connection};
pub use host_clock::HostClock;
pub use keep::Timeline;
pub use look::{Seen, look, read};
pub use name::{BadName, TimelineName};
pub use rendezvous::Directory;
pub use serve::{Daemon, ServeError, serve};
