//! Formats of other projects, byte by byte, as `parse` and `emit`. Each module states the source of
//! its layout.
//!
//! Nothing here accesses shared memory: each format documents its update protocol, and the owner of
//! the memory implements it.

mod bytes;
pub mod chrony_sock;
pub mod clockbound;
pub mod ntp_shm;
pub mod vmclock;

pub use bytes::Malformed;
