//! Simulated networks: links, queues, switches, routers, hosts and TCP.
//!
//! [`NetworkBuilder`] takes nodes and cables (which [`topology`] can generate), checks them, and
//! builds a [`World`]. A world is a `Model` that the engine can run:
//!
//! ```
//! use timeloom_engine::Engine;
//! use timeloom_net::{LinkConfig, NetworkBuilder, TcpConfig, World};
//! use timeloom_time::{Duration, Instant};
//!
//! let mut network = NetworkBuilder::new(1);
//! let (a, router, b) = (network.host("a"), network.router("r"), network.host("b"));
//! let link = LinkConfig::new(1_000_000_000, Duration::from_ms(1));
//! network.connect(a, router, link.clone());
//! network.connect(router, b, link);
//! let mut world = network.build()?;
//! let flow = world.add_tcp(a, b, TcpConfig::default())?;
//!
//! let mut engine: Engine<World> = Engine::new(world);
//! engine.with(|world, agenda| world.start(agenda));
//! engine.run_until(Instant::from_ns(1_000_000_000), u64::MAX);
//! assert!(engine.model.tcp(flow).delivered_bytes > 80_000_000);
//! # Ok::<(), timeloom_net::BuildError>(())
//! ```
//!
//! The crate does no I/O, reads no clock, and simulated packets contain no payload bytes. Rates are
//! in bits per second on the wire. Sizes are in bytes from the IP header on; the bytes that a link
//! adds to each packet are its `overhead_bytes`. Links store and forward.
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

mod assemble;
mod build;
mod bytes;
mod config;
mod error;
mod fluid;
mod ids;
mod kernel_tcp;
mod link;
mod node;
mod packet;
mod query;
mod queue;
mod route;
mod run;
mod segment;
#[cfg(feature = "smoltcp")]
pub mod server;
#[cfg(feature = "smoltcp")]
pub mod stack;
mod tables;
mod tcp;
pub mod topology;
mod world;

pub use build::NetworkBuilder;
pub use config::{ETHERNET_OVERHEAD, Impairment, LinkChange, LinkConfig, QueueConfig, RedConfig};
pub use error::{BuildError, ChangeError};
pub use fluid::{FluidConfig, FluidId, FluidLinkStats, FluidPattern, FluidStats};
pub use ids::{FlowId, Node, TrafficSourceId};
pub use kernel_tcp::{Acknowledgement, SentSegment, TcpTimerStats};
pub use node::frame::Frame;
pub use packet::{Packet, PacketKind, PortId};
pub use tables::buffers::{Checksum, LARGE, OffloadedWork, Train, TrainProtocol};
pub use tables::crossings::{Arrival, Cable, Crossings, Owner};
pub use tables::residents::{FrameView, Outgoing, ReceivedFrame, Resident};
pub use tables::source::{PacketSize, Pattern, TrafficConfig, TrafficStats};
pub use tables::stats::{Counters, LinkStats};
pub use tables::switch::PortMode;
pub use tcp::{Control, TcpConfig, TcpStats};
pub use world::World;
