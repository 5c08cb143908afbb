//! Simulated networks: links, queues, switches, routers, hosts and TCP.
//!
//! [`NetworkBuilder`] takes nodes and cables (or [`topology`] makes them),
//! checks them and builds a [`World`], which is a `Model` for the engine:
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
//! Nothing here does I/O, reads a clock or holds payload. Rates are in bits
//! per second on the wire, sizes in bytes from the IP header on; what a link
//! adds per packet is its `overhead_bytes`. Links store and forward.
#![forbid(unsafe_code)]

mod arp;
mod assemble;
mod buffers;
mod build;
mod bytes;
mod config;
mod crossing;
mod error;
mod fluid;
mod fragment;
mod frame;
mod host;
mod icmp;
mod icmp_limit;
mod link;
mod packet;
mod queue;
mod raw;
mod resident;
mod route;
mod router;
mod segment;
#[cfg(feature = "smoltcp")]
pub mod server;
mod slab;
#[cfg(feature = "smoltcp")]
pub mod stack;
mod switch;
mod tcp;
pub mod topology;
mod traffic;
mod train;
mod world;

pub use buffers::{Checksum, LARGE, Offload, Train, TrainProtocol};
pub use build::{NetworkBuilder, Node};
pub use config::{ETHERNET_OVERHEAD, Impairment, LinkConfig, QueueConfig, RedConfig};
pub use crossing::{Arrival, Cable, Crossings, Owner};
pub use error::BuildError;
pub use fluid::{FluidConfig, FluidId, FluidLinkStats, FluidPattern, FluidStats};
pub use frame::Frame;
pub use link::LinkStats;
pub use packet::{Kind, Packet, PortId};
pub use resident::{Arrived, Glance, Outgoing, Resident};
pub use switch::PortMode;
pub use tcp::{Control, TcpConfig, TcpStats};
pub use traffic::{Pattern, Size, TrafficConfig, TrafficStats};
pub use world::{Counters, FlowId, SourceId, World};
