//! Emulation portals: connect real programs to a simulated network.
//!
//! A *portal* connects a host of a [`timeloom_net::World`] to the outside: to a namespace through a
//! TAP device ([`Tap`]), or to an existing interface ([`PacketPort`]). [`Emulation`] is the thread
//! that runs the engine at the pace of a clock, sleeps until the next event or frame, and carries
//! frames between the portals and the model.
//!
//! **Trains.** Kernels pass up to 64 KiB of a TCP flow as one frame with one header and leave
//! segmentation and checksums to the card. Portals request this format (`vnet_hdr`) and use it in
//! both directions; the model cuts a train where rate or queue require it, and parts of a flow that
//! are delivered in one iteration are joined again. This increases throughput by a factor of ten.
//!
//! **Counters.** Every frame that does not get through is counted: dropped by the kernel before a
//! portal read it, malformed, filtered, refused by the other side, or not read in time. The
//! engine's lateness is recorded too, since a machine that cannot keep up produces results that
//! cannot be trusted ([`Report::untrusted`]).
//!
//! **Links to other machines** ([`Tunnels`]) carry frames of the kernel's network, without a model,
//! and stop when the clock stops.
//!
//! Not in this crate: decisions about the network (`net`), creation of namespaces (`fabric`), and
//! files; captured frames go to a sink supplied by the caller.
#![forbid(unsafe_code)]

mod emulation;
mod error;
mod filter;
mod interface;
mod join;
mod moderation;
mod packet;
mod poll;
mod port;
mod portals;
mod segment;
mod tap;
mod timing;
mod tunnel;
mod vnet;

pub use emulation::{
    Arrive, Capture, Died, Emulation, EngineGroup, Member, Options, Passed, Report, Sample,
};
pub use error::PortalError;
pub use filter::{Filter, Rule};
pub use interface::{Address, Inet};
pub use packet::{PacketOptions, PacketPort};
pub use port::{Port, Received, TxStatus};
pub use portals::{PortReport, Portals};
pub use segment::segments;
pub use tap::Tap;
pub use timeloom_engine::Awake;
pub use timing::{Commanded, Follow, Timing};
#[doc(hidden)]
pub use tunnel::fuzzing;
pub use tunnel::{TunnelEnd, TunnelKey, TunnelReport, Tunnels};
