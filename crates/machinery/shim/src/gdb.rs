//! Arguments that a gdb of the session starts with: SIGSYS, by which each call that
//! carries time reaches the image, is passed on without a stop.

core::arch::global_asm!(
    ".pushsection .rodata.timeloom_gdb, \"a\"",
    ".globl timeloom_gdb_option, timeloom_gdb_command",
    ".hidden timeloom_gdb_option, timeloom_gdb_command",
    "timeloom_gdb_option:",
    ".asciz \"-iex\"",
    "timeloom_gdb_command:",
    ".asciz \"handle SIGSYS nostop noprint pass\"",
    ".popsection",
);
