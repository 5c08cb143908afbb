//! The line between machines: holds of any of them make all stand at one instant.
//!
//! `timeloom-accord` decides; here its datagrams go over UDP, sealed with the key of
//! the run, and its orders to a clock and its processes ([`AgreedTestbed`]).

mod group;
mod seal;
mod testbed;
mod timeline;
mod udp;

pub(crate) use seal::Unopened;
pub use seal::{Key, parse_key};
pub use testbed::AgreedTestbed;
pub use timeline::{CommonTimeline, MachineTimeline, SystemTimeline};
pub use udp::{Bound, Peer, Udp, UdpError};
