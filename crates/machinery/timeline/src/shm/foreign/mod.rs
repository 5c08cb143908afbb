//! Formats of other projects, with functions `parse` and `emit` for their bytes. Each module states
//! the source of its layout.
//!
//! No code in this module accesses shared memory. Each format documents its update protocol, which
//! the owner of the memory implements.

mod bytes;
pub mod chrony_sock;
pub mod clockbound;
pub mod ntp_shm;
pub mod vmclock;

pub use bytes::ForeignFormatError;
