//! The system layer: what the other crates ask of Linux and `rustix` does not have.
//!
//! Who needs a call of the kernel takes it from the standard library, then from
//! `rustix`, and only then from here. What is here is safe to call: the unsafe
//! code behind it is in this crate, so that the crates above can forbid it.
//!
//! - [`clock`]: the machine's clocks, read and steered.
//! - [`schedule`]: going before or behind the machine's other threads.
//! - [`epoll`]: sleeping on many descriptors, to the nanosecond.
//! - [`control`], [`batch`]: datagrams with what the kernel says beside the
//!   bytes, one or many by one call.
//! - [`packet`]: packet sockets. [`stamps`]: stamps of arrivals and departures.
//! - [`interface`], [`tap`]: network interfaces.
//! - [`own`], [`local`]: where programs of one user meet, and how they connect there.
//! - [`descriptor`]: one from one process to another.
//! - [`command`]: what a child does between fork and exec. [`rights`], [`account`]: who it
//!   is, and what it may do. [`rooted`]: files as a container's programs find them.
//! - [`signals`]: which of them a thread takes.
//! - [`cgroup`]: where they are. [`first_timeout`]: how long sockets of one wait first.
//! - [`plain`]: files that somebody else names. [`secret`]: files that nobody else may know.
//! - [`limit`]: how many descriptors this process may have open, and its children.
//! - [`memory`]: what lies at an address, if anything does. [`namespace`]: which one it is.
//! - [`trial`]: what this machine allows. [`vsock`]: between a virtual machine and its host.
//!
//! It decides nothing. There is no state here but what the kernel keeps.

pub mod account;
pub mod batch;
pub mod cgroup;
pub mod clock;
pub mod command;
pub mod control;
pub mod descriptor;
pub mod environment;
pub mod epoll;
pub mod first_timeout;
pub mod interface;
pub mod limit;
pub mod local;
pub mod memory;
pub mod namespace;
pub mod own;
pub mod packet;
pub mod plain;
pub mod rights;
pub mod rooted;
pub mod schedule;
pub mod secret;
pub mod signals;
pub mod stamps;
pub mod tap;
pub mod trial;
pub mod vsock;

mod option;

pub use clock::wall_now;
