//! What programs and a timeline's daemon say to each other, and where they meet.
//!
//! A `SOCK_SEQPACKET` Unix socket per timeline ([`Directory`] says where); every
//! packet is one JSON object of at most [`MOST_BYTES`]. A client sends
//! [`Request`]s, each with a number of its own; the daemon sends one [`Reply`]
//! with that number for each, and [`Event`]s for bindings that were subscribed.
//! When the connection ends, by whatever cause, the client's bindings end with
//! it. `docs/timeline-protocol.md` is this crate in prose.
//!
//! A PTP slave tells a timeline of its Syncs by another socket ([`FedSync`]).
//!
//! [`Connection`] is the plain way to speak the former. What this crate is not: a reader
//! of pages (`timeloom-publish`), a program's verbs (`timeloom-timeline-client`),
//! or the daemon (`timeloom-timeline`); the latter two both depend on it.
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
