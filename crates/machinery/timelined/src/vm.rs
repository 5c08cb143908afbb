//! Timelines for virtual machines. A guest reads its host's time from shared memory, and states its
//! requirements through a serial port or a vsock. Neither the emulator nor the guest's kernel is
//! modified.
//!
//! - [`Relay`]: the host's side of one virtual machine. It copies the pages of daemons into the
//!   machine's region, and forwards the guest's requests to the daemons, within quotas.
//! - [`GuestAgent`]: the guest's side, at the end of a [`HostLink`]. It measures the relation of
//!   the guest's counter to the host's. It also serves the sockets at which programs expect a
//!   daemon, so that they use the library as on any machine.
//! - [`monitor`]: events of the emulator. [`devices`]: discovery of region and port in a guest.
//!   [`qemu`]: arguments of the emulator.
//! - [`Frames`]: framing of messages in a stream of bytes, any part of which may be missing.
//!
//! The program `timeloom vm` calls this module.

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
mod protocol;
pub mod qemu;
mod relay;
mod session;

pub use agent::GuestAgent;
pub use frames::{Frames, MOST_FRAME_BYTES};
pub use link::{HostLink, VSOCK_PORT};
pub use protocol::{FromGuest, FromHost, VM_VERSION};
pub use relay::{Relay, RelayError, RelayStats};
