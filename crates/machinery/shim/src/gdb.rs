//! Start arguments for a gdb in the session. They make gdb pass SIGSYS, by which each time-related
//! call reaches the image, to the program without a stop.

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
