//! The system calls that carry time, and what happens to each.
//!
//! Three parts of Timeloom must agree on that: the seccomp filter, which decides where a
//! call goes; the image inside the program, which answers most of them; and the
//! supervisor, which answers the others. Each is made from [`CALLS`], one table with one
//! row a call. So is `docs/coverage.md`. What the rows must hold to is checked when this
//! crate is compiled (`check.rs`).
//!
//! What the image in turn asks the supervisor, by a number that no kernel has, is
//! [`ImageCall`].
//!
//! What it is not: there is no code here that treats a call. The image is linked with
//! this crate, hence `no_std`, no allocation and nothing that can panic at run time.
//!
//! To add a call: its row in `table.rs`, and where that names a [`Handler`] or a
//! [`Service`] of its own, the arms that the compiler then asks for in the image
//! (`shim/src/trap.rs`) and in the supervisor.
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

/// What our filters say of a trap (`si_errno`), to be told from one of the program's own.
pub const TRAP_MARK: u16 = 0x746c;

/// `si_code` of the SIGSYS with which the supervisor ends a turn of a wait. The kernel has
/// none like it.
pub const KICK_CODE: i32 = -0x746c;
