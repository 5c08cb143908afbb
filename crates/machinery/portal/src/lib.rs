//! Emulation portals: real programs on a simulated network.
//!
//! A *portal* joins a host of a [`timeloom_net::World`] to something real: a
//! namespace through a TAP device ([`Tap`]), or an interface that is there
//! already ([`PacketPort`]). [`Emulation`] is the thread that runs the engine at the
//! pace of a clock, sleeps until the next event or frame, and carries frames
//! between the portals and the model.
//!
//! **Whole trains.** Kernels hand over up to 64 KiB of a TCP flow as one frame
//! with one header and leave cutting and checksums to a card. Portals ask for
//! that (`vnet_hdr`) and give it to the other side in the same form; the model
//! cuts where rate or queue demand it, and what one turn hands out of a flow is
//! joined again. That is a factor of ten in throughput.
//!
//! **What is counted.** Every frame that does not get through: what the kernel
//! dropped before a portal read it, what was no frame, what a filter held
//! back, what the other side refused, what nobody took out in time; and how
//! late the engine was, since a machine that cannot keep up makes results that
//! cannot be trusted ([`Report::untrusted`]).
//!
//! **Links to other machines** ([`Tunnels`]) carry frames of the kernel's network, without a
//! model, and stand when the clock does.
//!
//! What this crate is not: it decides nothing about the network (that is
//! `net`), makes no namespaces (`fabric`) and writes no files; captures go to a
//! sink of its owner's.
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

pub use emulation::{Arrive, Capture, Died, Emulation, Options, Report, Sample};
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
