//! Agreement of a testbed's hosts on the instant of a pause, and on its end.
//!
//! "Distributed virtual time" (Hannon, Yan, Liu, Jin, PADS '19) joins its boards by one line, and
//! pauses while any board pulls it. Each board stops when the edge reaches it, so that their clocks
//! diverge a little with every pause (Figure 8). Here a pause is *agreed*: all hosts stop at one
//! virtual instant T, no clock ever passes it, and all resume from it at one instant R of a common
//! timeline. So the difference of two clocks is that of their timelines, however many pauses there
//! were.
//!
//! - [`Member`] is one host: datagrams and time in, datagrams and [`Order`]s out.
//! - [`Agreement`] is the protocol without network and time; in this form every order of events of
//!   three hosts is searched.
//! - [`Datagram`] is the form on the wire.
//!
//! The crate opens no socket, reads no clock and stops no process: `timeloom-bus` does. Any host
//! may request a pause at any time, and none is special.
#![forbid(unsafe_code)]

mod agreement;
mod datagram;
#[cfg(test)]
mod explore;
mod hosts;
mod link;
mod member;
mod record;

pub use agreement::{Agreement, OnSilence, Order};
pub use datagram::{Datagram, Echo};
pub use hosts::{HostId, Hosts};
pub use member::{Action, Member, Mode, Moment, Settings};
pub use record::{Halt, Record, Resumed, Stage, Why};
