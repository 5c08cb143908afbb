//! Emulation portals, which connect real programs to a simulated network.
//!
//! A *portal* connects a host of a [`timeloom_net::World`] to the outside: to a namespace through a
//! TAP device ([`Tap`]), or to an existing interface ([`PacketPort`]). [`Emulation`] is a thread
//! that runs the engine at the pace of a clock and sleeps until the next event or frame. It carries
//! frames between the portals and the model.
//!
//! **Trains.** Kernels pass up to 64 KiB of a TCP flow as one frame with one header, and leave
//! segmentation and checksums to the network card; such a checksum is called *open*. Portals
//! request this format (`vnet_hdr`) and use it in both directions. The model cuts a train where a
//! rate or a queue requires it, and parts of a flow that are delivered in one iteration are joined
//! again. This increases throughput by a factor of ten.
//!
//! **Counters.** Every frame that does not reach its destination is counted: frames that the kernel
//! dropped before a portal read them, malformed and filtered frames, and frames that the kernel
//! outside refused or that were not read in time. The engine's lateness is recorded too, since
//! results of a machine that is too slow cannot be trusted ([`EmulationReport::untrusted`]).
//!
//! **Links to other machines** ([`Tunnels`]) carry frames of the kernel's network without a model.
//! They stop when the clock stops.
//!
//! **Network cards** ([`StampLog`]) stamp frames at the instants of the model at which their first
//! bits pass.
//!
//! **Several engines** ([`peering`]) simulate one network together, either in step or at the pace of
//! one clock.
//!
//! Other crates make decisions about the network (`net`) and create namespaces (`fabric`). This
//! crate writes no files; the caller supplies a function that receives captured frames.
#![forbid(unsafe_code)]

mod emulation;
mod error;
mod filter;
mod interface;
mod join;
mod moderation;
mod packet;
pub mod peering;
mod poll;
mod port;
mod portals;
mod repair;
mod segment;
mod stamps;
mod streams;
mod tap;
mod timing;
mod tunnel;
mod vnet;

pub use emulation::{
    ArrivalCallback, CaptureProgressCallback, CaptureSink, Emulation, EmulationOptions,
    EmulationReport, EngineGroup, EngineRemote, FrameArrivalCallback, GroupMember, PanicCallback,
    SampleCallback, Unrest,
};
pub use error::PortalError;
pub use filter::{FrameFilter, Rule};
pub use interface::{Address, Inet};
pub use packet::{PacketOptions, PacketPort};
pub use port::{Port, ReceiveResult, TxStatus};
pub use portals::{PortReport, Portals};
pub use segment::segments;
pub use stamps::{FrameDeparture, StampLog};
pub use streams::TurnStreams;
pub use tap::Tap;
pub use timeloom_engine::Awake;
pub use timing::{FollowedClock, ManualClock, Timing};
#[doc(hidden)]
pub use tunnel::fuzzing;
pub use tunnel::{TunnelCarrier, TunnelConfig, TunnelKey, TunnelPeer, TunnelReport, Tunnels};
