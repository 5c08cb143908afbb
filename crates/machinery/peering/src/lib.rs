//! Several engines for one simulated network.
//!
//! Each engine has a part of the network; the cables between parts are *cut*
//! ([`Cut`], [`partition`]). What leaves on a cut cable reaches the other engine
//! in one of two ways:
//!
//! - [`exact`]: the engines wait for one another. Within windows as long as the
//!   shortest cut cable nothing that one does can reach another, so the result
//!   is, bit by bit, that of one engine. For verification, and for speed where
//!   cut cables are long.
//!
//! - [`Portal`]: the engines do not wait; all follow the same clock, and packets
//!   go by UDP ([`peer`] is the protocol, [`codec`] how little of a packet goes
//!   over), or between threads by shared memory ([`Ring`]). One that comes after
//!   its instant is handled at once and counted. For real time.
//!
//! Nothing here knows scenarios or real programs; portals to those are beside
//! it.
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
