//! Entry of a signal that the image handles on behalf of the program.

use super::Context;
use crate::abi::SignalInfo;
use crate::sys::{nr, syscall};

/// Returns false: on this architecture the processor's counter cannot be made to trap, so the image
/// has caused no fault.
pub(crate) fn is_emulated(_: &SignalInfo, _: &mut Context) -> bool {
    false
}

/// Handles `prctl(…)`, which does not affect the counter on this architecture.
pub(crate) fn prctl(args: [usize; 6]) -> isize {
    // SAFETY: the program's own call, on its own behalf.
    unsafe { syscall(nr::PRCTL, args) }
}

// `intercepted.rs` describes this entry. The return address is in x30. The return from the signal
// restores all registers, so this code may change any. The program's handler returns here and not to
// `timeloom_restorer`, whose call is the image's own, does not trap, and therefore would restore the
// mask that the handler leaves in its frame although that mask blocks SIGSYS.
core::arch::global_asm!(
    ".pushsection .text.timeloom_intercepted, \"ax\", @progbits",
    ".globl timeloom_intercepted, timeloom_intercepted_once",
    ".hidden timeloom_intercepted, timeloom_intercepted_once",
    ".type timeloom_intercepted, @function",
    ".type timeloom_intercepted_once, @function",
    ".balign 4",
    ".cfi_startproc",
    ".cfi_def_cfa sp, 0",
    ".cfi_register x30, x21",
    "timeloom_intercepted_once:",
    "mov x4, #1",
    "b 1f",
    "timeloom_intercepted:",
    "mov x4, #0",
    "1:",
    "mov x3, x30",
    "adr x30, timeloom_restorer",
    "mov x19, x1",
    "mov x20, x2",
    "mov x21, x30",
    "bl timeloom_decide",
    "mov x30, x21",
    "cbz x0, 2f",
    "mov x16, x0",
    "ldr w0, [x19]",
    "mov x1, x19",
    "mov x2, x20",
    // An unwinder finds the caller in `timeloom_restorer`, which x21 holds.
    "blr x16",
    "mov x0, x20",
    "bl timeloom_repair_mask",
    "mov x30, x21",
    "2:",
    "ret",
    ".cfi_endproc",
    ".size timeloom_intercepted, . - timeloom_intercepted",
    ".popsection",
);
