//! Entry of a trapped call: runs before `timeloom_trapped`, before anything is written to the
//! stack.

use crate::stack::LEAST_ROOM;

// The third argument is the interrupted context, which has the beginning and size of the alternate
// stack. A stack pointer that is not on that stack is further above its beginning than its size. If
// there is not enough room, the program is ended; that code runs at the top of the stack, whose
// contents no longer matter.
core::arch::global_asm!(
    ".pushsection .text.timeloom_handler, \"ax\", @progbits",
    ".globl timeloom_handler, timeloom_no_room",
    ".hidden timeloom_handler, timeloom_no_room",
    ".type timeloom_handler, @function",
    "timeloom_handler:",
    ".cfi_startproc",
    "mov rax, rsp",
    "sub rax, [rdx + 16]",
    "cmp rax, [rdx + 32]",
    "jae timeloom_trapped",
    "cmp rax, {least}",
    "jae timeloom_trapped",
    "timeloom_no_room:",
    "mov rsp, [rdx + 16]",
    "add rsp, [rdx + 32]",
    "and rsp, -16",
    "call timeloom_end_for_want_of_stack",
    "ud2",
    ".cfi_endproc",
    ".size timeloom_handler, . - timeloom_handler",
    ".popsection",
    least = const LEAST_ROOM,
);
