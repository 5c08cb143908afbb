//! Protocol between programs and a timeline's daemon, and the directory in which programs find it.
//!
//! There is a `SOCK_SEQPACKET` Unix socket per timeline (its path: [`Directory`]). Every packet is
//! one JSON object of at most [`MOST_BYTES`]. A client sends [`Request`]s, each with a number that
//! the client chooses. The daemon answers each with one [`Reply`] that has the same number, and
//! sends [`BindingEvent`]s for bindings to which the client has subscribed. When the connection
//! ends for any reason, the client's bindings end with it. `docs/timeline-protocol.md` describes
//! this module in prose.
//!
//! A PTP slave reports its Sync messages to a timeline's daemon by another socket ([`FedSync`]).
//!
//! [`Connection`] is a simple blocking client of the `SOCK_SEQPACKET` socket.

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

pub use answer::{Answer, DaemonMessage, Page, RefusalCode, Reply, TimelineScale};
pub use binding::{BindingEvent, BindingState, ShortfallText};
pub use codec::{MOST_BYTES, NoMessage, VERSION, decode, encode};
pub use connection::{ClientError, Connection};
pub use directory::Directory;
pub use feed::{FedSync, FeedError, MOST_FEED_BYTES, MOST_NAME_BYTES};
pub use journal::StatusChange;
pub use name::{BadName, TimelineName};
pub use nanoseconds::Nanoseconds;
pub use report::{SourceReport, TimelineReport};
pub use request::{PlainRequirement, Request, RequestKind};
pub use stamp::{IntervalText, StampText};
