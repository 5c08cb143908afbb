//! Protocol between programs and a timeline's daemon, and the directory in which they meet.
//!
//! There is a `SOCK_SEQPACKET` Unix socket per timeline (its path: [`Directory`]); every packet is
//! one JSON object of at most [`MOST_BYTES`]. A client sends [`Request`]s, each with a number of
//! its own; the daemon sends one [`Reply`] with that number for each, and [`Event`]s for bindings
//! that were subscribed. When the connection ends, for any reason, the client's bindings end with
//! it. `docs/timeline-protocol.md` describes this crate in prose.
//!
//! A PTP slave reports its Syncs to a timeline by another socket ([`FedSync`]).
//!
//! [`Connection`] is the simple client of the former. Readers of pages are in `timeloom-publish`, a
//! program's verbs in `timeloom-timeline-client`, and the daemon in `timeloom-timeline`; the latter
//! two both depend on this crate.
#![forbid(unsafe_code)]

mod answer;
mod binding;
mod codec;
mod connection;
mod directory;
mod feed;
mod journal;
mod name;
mod nanoseconds;
pub mod packet;
mod report;
mod request;
mod stamp;

pub use answer::{Answer, Message, Page, RefusalCode, Reply, ScaleName};
pub use binding::{Binding, Event, ShortfallText};
pub use codec::{MOST_BYTES, NoMessage, VERSION, decode, encode};
pub use connection::{ClientError, Connection};
pub use directory::Directory;
pub use feed::{FedSync, MOST_FEED_BYTES, MOST_NAME_BYTES, NotFed};
pub use journal::StatusChange;
pub use name::{BadName, TimelineName};
pub use nanoseconds::Nanoseconds;
pub use report::{Report, SourceReport};
pub use request::{Ask, Need, Request};
pub use stamp::{IntervalText, StampText, StatusName};
