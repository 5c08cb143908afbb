//! Entry of a trapped call. It runs before `timeloom_trapped`, and checks the stack before anything
//! is written to it.

use crate::stack::LEAST_ROOM;

// The third argument is the interrupted context, which has the address and size of the alternate
// stack, and the stack pointer of the interrupted code. A stack pointer that is not on the
// alternate stack exceeds the stack's address by more than its size. The kernel may have put its
// frame below the stack: an interrupted stack pointer on the stack counts too, and the remaining
// space may be negative. If there is not enough space, the program is ended. The code that ends it
// runs at the top of the stack, whose contents no longer matter.
core::arch::global_asm!(
    ".pushsection .text.timeloom_handler, \"ax\", @progbits",
    ".globl timeloom_handler, timeloom_no_room",
    ".hidden timeloom_handler, timeloom_no_room",
    ".type timeloom_handler, @function",
    ".balign 4",
    "timeloom_handler:",
    ".cfi_startproc",
    "ldr x10, [x2, #16]",
    "ldr x11, [x2, #32]",
    "mov x9, sp",
    "sub x9, x9, x10",
    "cmp x9, x11",
    "b.lo 1f",
    "ldr x12, [x2, #432]",
    "sub x12, x12, x10",
    "sub x12, x12, #1",
    "cmp x12, x11",
    "b.hs 2f",
    "1:",
    "cmp x9, #{least}",
    "b.lt timeloom_no_room",
    "2:",
    "b timeloom_trapped",
    "timeloom_no_room:",
    "add x9, x10, x11",
    "and x9, x9, #-16",
    "mov sp, x9",
    "bl timeloom_end_for_want_of_stack",
    "brk #0",
    ".cfi_endproc",
    ".size timeloom_handler, . - timeloom_handler",
    ".popsection",
    least = const LEAST_ROOM,
);
