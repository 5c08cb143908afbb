//! How the hosts of a testbed agree on where a pause is, and on when it ends.
//!
//! "Distributed virtual time" (Hannon, Yan, Liu, Jin, PADS '19) joins its boards by one
//! line: paused while anybody pulls it. Each board stops when the edge reaches it, so
//! that their clocks part a little with every pause (Figure 8). Here a pause is *agreed*:
//! all hosts stand at one virtual instant T, no clock ever passes it, and all go on from
//! it at one instant R of a timeline that they share. So two clocks differ by what their
//! timelines do, however many pauses there were.
//!
//! - [`Member`] is one host: datagrams and time in, datagrams and [`Order`]s out.
//! - [`Agreement`] is what it agrees by, without network and time, in which form every
//!   order of events of three hosts is searched.
//! - [`Datagram`] is the form on the wire.
//!
//! It opens no socket, reads no clock and stops no process: `timeloom-bus` does. Any host
//! may ask at any time, and none is special.
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
