//! Line between machines over a network: a hold on any machine stops all of them at the same
//! instant.
//!
//! `timeloom-agreement` makes the decisions. This module sends its datagrams over UDP, sealed with the
//! key of the run, and executes its orders on a clock and its processes ([`AgreedTestbed`]).

mod group;
mod seal;
mod testbed;
mod timeline;
mod udp;

pub use seal::BusKey;
pub(crate) use seal::Unopened;
pub use testbed::{AgreedTestbed, LocalResumption};
pub use timeline::{CommonTimeline, MachineTimeline, SystemTimeline};
pub use udp::{BoundSocket, BusPeer, Udp, UdpError};
