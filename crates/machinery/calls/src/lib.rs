//! The system calls that carry time, and the treatment of each.
//!
//! Three parts of Timeloom must agree on it: the seccomp filter, which routes a call; the image
//! inside the program, which handles most calls; and the supervisor, which handles the others. Each
//! is derived from [`CALLS`], one table with one row per call. So is `docs/coverage.md`. The
//! invariants of the rows are checked when this crate is compiled (`check.rs`).
//!
//! The questions of the image to the supervisor, under a number that no kernel has, are
//! [`ImageCall`].
//!
//! This crate has no code that handles a call. The image is linked with this crate, hence `no_std`,
//! no allocation and no code that can panic at run time.
//!
//! To add a call: add its row in `table.rs`. If that names a new [`Handler`] or [`Service`], add
//! the arms that the compiler then requires in the image (`shim/src/trap.rs`) and in the
//! supervisor.
#![no_std]
#![forbid(unsafe_code)]

mod call;
mod check;
mod handler;
mod image_call;
mod lookup;
mod named;
mod service;
mod table;
pub mod verdict;
mod when;

pub use call::{Call, Extra, Numbers, Treatment};
pub use handler::Handler;
pub use image_call::{IMAGE_CALL, ImageCall, counts_processor};
pub use lookup::{
    calls, extra_count, extra_numbers, find, handled_count, handled_numbers, handler_of, number,
    rows,
};
pub use named::{
    IOCTLS, Ioctl, SOCKET_OPTIONS, SocketOption, TCP_CONGESTION, TERMINAL_INPUT, TerminalWait,
};
pub use service::Service;
pub use table::{CALLS, NEWEST};
pub use when::When;

/// `si_errno` of traps by Timeloom's filters, to distinguish them from traps by the program's own.
pub const TRAP_MARK: u16 = 0x746c;

/// `si_code` of the SIGSYS with which the supervisor ends a turn of a wait. The kernel does not use
/// this value.
pub const KICK_CODE: i32 = -0x746c;
