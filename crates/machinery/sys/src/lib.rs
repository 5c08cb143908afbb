//! The system layer: Linux interfaces that other crates need and that `rustix` lacks.
//!
//! A crate that needs a system call uses the standard library, then `rustix`, and only then this
//! crate. All functions of this crate are safe to call. The unsafe code is inside this crate, so
//! that the crates that use it can forbid unsafe code.
//!
//! - [`clock`]: the machine's clocks, read and steered.
//! - [`schedule`]: scheduling policy of the calling thread.
//! - [`epoll`]: waiting for many descriptors, with nanosecond timeouts. [`readable`]: pending input
//!   among many.
//! - [`control`], [`batch`]: datagrams with control messages, one or several per call.
//! - [`packet`]: packet sockets. [`stamps`]: timestamps of arrivals and departures.
//! - [`interface`], [`tap`]: network interfaces.
//! - [`own`], [`local`]: a user's private directories, and connections to sockets in them.
//! - [`descriptor`]: passing a descriptor between processes.
//! - [`command`]: preparation of a child between fork and exec. [`rights`], [`account`]: user and
//!   rights of a child. [`rooted`]: files as the programs of a container see them.
//! - [`signals`]: signal masks of threads.
//! - [`cgroup`]: paths of control groups. [`first_timeout`]: initial TCP timeout in a control
//!   group. [`congestion`]: congestion controls of TCP as BPF programs. [`shared_memory`]: memory
//!   that BPF programs read.
//! - [`plain`]: files named by untrusted input. [`secret`]: files with secrets.
//! - [`limit`]: the descriptor limit of this process and its children.
//! - [`memory`]: reads of addresses that may be unmapped. [`namespace`]: unique numbers of
//!   namespaces.
//! - [`trial`]: tests of the machine's abilities. [`vsock`]: sockets between a virtual machine and
//!   its host.
//!
//! The crate makes no decisions and keeps no state outside the kernel.

pub mod account;
pub mod batch;
pub mod cgroup;
pub mod clock;
pub mod command;
pub mod congestion;
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
pub mod readable;
pub mod rights;
pub mod rooted;
pub mod schedule;
pub mod seal;
pub mod secret;
pub mod shared_memory;
pub mod signals;
pub mod stamps;
pub mod tap;
pub mod trial;
pub mod vsock;

mod bpf_call;
mod option;

pub use clock::wall_now;
