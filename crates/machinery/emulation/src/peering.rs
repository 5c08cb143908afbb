//! Several engines that simulate one network.
//!
//! Each engine simulates a part of the network. The cables between parts are *cut* ([`Cut`],
//! [`partition`]). Packets on a cut cable reach the other engine in one of two modes:
//!
//! - [`exact`]: the engines wait for one another. Within windows as long as the delay of the
//!   shortest cut cable, no event of one engine can affect another, so the result equals that of a
//!   single engine bit by bit. This mode is for verification, and for speed where cut cables have
//!   long delays.
//!
//! - [`Portal`]: the engines do not wait, and all follow the same clock. Packets are sent over UDP
//!   ([`peer`] is the protocol, [`codec`] the compact encoding) or, between threads, in shared
//!   memory ([`Ring`]). A packet that arrives after its instant is handled at once and counted as
//!   late. This mode is for real time.
//!
//! Engines on machines that act in turns ([`Streamed`]) need neither: a packet has arrived when the
//! turn of its receiver begins, so the result is that of a single engine, too.
//!
//! This module knows neither scenarios nor real programs. Portals to real programs are in the rest of
//! this crate.

mod bell;
pub mod codec;
mod cut;
pub mod datagram;
pub mod exact;
mod flag;
mod key;
pub mod message;
pub mod partition;
pub mod peer;
mod portal;
mod ring;
mod run;
mod socket;
mod streamed;
mod sync;
mod transport;
mod varint;
mod waiting;

pub use cut::{Cut, CutError};
pub use portal::{AdjacencyReport, Portal, PortalStats};
pub use ring::Ring;
pub use run::{Gateway, Pause, run};
pub use socket::Socket;
pub use streamed::Streamed;
pub use transport::Endpoint;
