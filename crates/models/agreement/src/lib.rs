//! Agreement of a testbed's hosts on the instant at which a pause begins, and on its end.
//!
//! "Distributed virtual time" (Hannon, Yan, Liu, Jin, PADS '19) connects its boards by one wired
//! line, and pauses while any board pulls the line. Each board stops when the edge reaches it, so
//! their clocks diverge a little with every pause (Figure 8). Here, the hosts *agree* on a pause:
//! all stop at one virtual instant T, no clock ever passes T, and all resume from T at one instant
//! R of a common timeline. So the difference between two clocks is the difference between their
//! hosts' timelines, however many pauses there were. A change of the clocks' rate is a pause too: all
//! resume from T at the agreed new rate, so that no two clocks ever run at different rates.
//!
//! - [`Member`] is one host: its inputs are datagrams and time, its outputs datagrams and
//!   [`HostOrder`]s.
//! - [`Agreement`] is the protocol without network and time. The tests search every order of events
//!   of three such hosts.
//! - [`Datagram`] is the format on the wire.
//!
//! Nodes whose clocks move only from event to event need no pauses: [`TurnOrder`] puts the events
//! of all nodes in one order, which is that of a single machine.
//!
//! This crate opens no socket, reads no clock and stops no process; `timeloom-bus` does. Any host
//! may request a pause at any time, and no host has a special role.
#![forbid(unsafe_code)]
// Conversions state their result (see `timeloom_time::convert`). Tests count in small numbers.
#![cfg_attr(
    not(test),
    warn(
        clippy::cast_possible_truncation,
        clippy::cast_possible_wrap,
        clippy::cast_sign_loss,
        clippy::cast_lossless
    )
)]

mod agreement;
mod datagram;
#[cfg(test)]
mod explore;
mod hosts;
mod link;
mod member;
mod record;
mod turns;

pub use agreement::{Agreement, HostOrder, OnSilence};
pub use datagram::{Datagram, Echo};
pub use hosts::{HostId, Hosts};
pub use member::{LeadMode, Member, MemberAction, Settings, TimelineReading};
pub use record::{Halt, HaltCause, HostRecord, PauseStage, Resumption, Vote};
pub use turns::{EventKey, Turn, TurnEnd, TurnFault, TurnOrder};
