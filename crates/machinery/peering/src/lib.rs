//! Several engines for one simulated network.
//!
//! Each engine has a part of the network; the cables between parts are *cut* ([`Cut`],
//! [`partition`]). Packets on a cut cable reach the other engine in one of two modes:
//!
//! - [`exact`]: the engines wait for one another. Within windows as long as the shortest cut cable,
//!   no event of one engine can affect another, so the result equals that of one engine bit by bit.
//!   For verification, and for speed where cut cables are long.
//!
//! - [`Portal`]: the engines do not wait; all follow the same clock, and packets are sent over UDP
//!   ([`peer`] is the protocol, [`codec`] the compact encoding) or, between threads, in shared
//!   memory ([`Ring`]). A packet that arrives after its instant is handled at once and counted. For
//!   real time.
//!
//! This crate knows neither scenarios nor real programs; their portals are in the crate beside it.
#![forbid(unsafe_code)]

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
mod sync;
mod transport;
mod varint;
mod waiting;

pub use cut::{Cut, CutError};
pub use portal::{AdjacencyReport, Portal, PortalStats};
pub use ring::Ring;
pub use run::{Gateway, Pause, run};
pub use socket::Socket;
pub use transport::Endpoint;
