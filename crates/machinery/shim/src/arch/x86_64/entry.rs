//! Entry of a trapped call. It runs before `timeloom_trapped`, and checks the stack before anything
//! is written to it.

use crate::stack::LEAST_ROOM;

// The third argument is the interrupted context, which has the address and size of the alternate
// stack. A stack pointer that is not on that stack exceeds its address by more than its size. If
// there is not enough space, the program is ended. The code that ends it runs at the top of the
// stack, whose contents no longer matter.
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
