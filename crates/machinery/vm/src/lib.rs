//! Timelines for virtual machines: a guest reads its host's time from memory, and requests a
//! quality through a serial port or a vsock. Neither the emulator nor its kernel is changed.
//!
//! - [`Relay`]: the host's side of one machine. It copies the daemon's pages into the machine's
//!   region, and forwards the guest's requests, within quotas.
//! - [`Agent`]: the guest's side, over a [`Link`]. It measures the relation of the guest's counter
//!   to the host's, and serves the sockets at which programs connect to a daemon, so that they use
//!   the library as on any machine.
//! - [`monitor`]: events of the emulator. [`devices`]: discovery of region and port in a guest.
//!   [`qemu`]: the emulator's arguments.
//! - [`Frames`]: messages in a stream of bytes, of which any part may be missing.
//!
//! This crate is neither a daemon (`timeloom-timeline`) nor a reader of pages (`timeloom-publish`).
//! The program `timeloom vm` calls it.
#![forbid(unsafe_code)]

mod agent;
mod channel;
pub mod devices;
mod frames;
#[doc(hidden)]
pub mod fuzzing;
mod link;
mod measure;
pub mod monitor;
mod pace;
pub mod qemu;
mod relay;
mod session;
mod words;

pub use agent::Agent;
pub use frames::{Frames, MOST_FRAME_BYTES};
pub use link::{Link, VSOCK_PORT};
pub use relay::{Relay, RelayError, RelayStats};
pub use words::{FromGuest, FromHost, VM_VERSION};
