//! System calls that carry time, and the treatment of each.
//!
//! Three parts of Timeloom must agree on the treatment: the seccomp filter, which routes a call;
//! the image (Timeloom's code inside each guest process), which handles most calls; and the
//! supervisor, which handles the others. All three are derived from one table, [`CALLS`], with one
//! row per call. So is `docs/coverage.md`. The invariants of the rows are checked when this crate
//! is compiled (`check.rs`).
//!
//! [`ImageCall`] defines the questions that the image asks the supervisor. It asks them by a system
//! call whose number no kernel has.
//!
//! This module has no code that handles a call.
//!
//! To add a call: add its row in `table.rs`. If that names a new [`Handler`] or
//! [`SupervisorService`], add the arms that the compiler then requires in the image
//! (`shim/src/trap.rs`) and in the supervisor.

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
    CARD_IOCTLS, IOCTLS, Ioctl, SOCKET_OPTIONS, SocketOption, TCP_CONGESTION, TCP_KEEPIDLE,
    TERMINAL_INPUT, TerminalWait,
};
pub use service::SupervisorService;
pub use table::{CALLS, NEWEST};
pub use when::CallCondition;

/// `si_errno` of a SIGSYS raised by Timeloom's filters. A SIGSYS raised by the program's own
/// filters has another value.
pub const TRAP_MARK: u16 = 0x746c;

/// `si_code` of the SIGSYS by which the supervisor interrupts a thread that waits in the image's
/// code. The kernel does not use this value.
pub const INTERRUPT_CODE: i32 = -0x746c;
