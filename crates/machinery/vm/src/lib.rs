//! Timelines for virtual machines: a guest reads its host's time from memory, and says
//! what quality it needs through a serial port or a vsock. No change to the emulator or its kernel.
//!
//! - [`Relay`]: the host's side of one machine. It copies the pages of the daemon into the
//!   machine's region, and forwards what the guest asks, within quotas.
//! - [`Agent`]: the guest's side, over a [`Link`]. It measures how the guest's counter stands to the host's,
//!   and serves the sockets at which programs meet a daemon, so that they use the library
//!   as anywhere.
//! - [`monitor`]: what the emulator says of itself. [`devices`]: finding region and port in a guest. [`qemu`]: the emulator's arguments.
//! - [`Frames`]: messages in a stream of bytes, of which any part may be missing.
//!
//! What it is not: a daemon (`timeloom-timeline`), or a reader of pages
//! (`timeloom-publish`). The program `timeloom vm` calls it.
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
