//! Other people's formats, byte by byte: what their readers and writers agree
//! on, as `parse` and `emit`. Each says where its layout comes from.
//!
//! Nothing here reads or writes memory that is shared: how a format is updated
//! under its readers is said beside each, and done by who owns the memory.

mod bytes;
pub mod chrony_sock;
pub mod clockbound;
pub mod ntp_shm;
pub mod vmclock;

pub use bytes::Malformed;
