//! Code with which a thread calls `PTRACE_TRACEME`, and then repeats its interrupted exec.

// The supervisor sets the registers (`tracing_then` in `guest/src/arch`): the registers for
// `ptrace(PTRACE_TRACEME)`, and in x9, x10 and x11 the exec's first argument, number and
// instruction address. Functions need not preserve these three. (`ret` may jump to any instruction,
// also in pages with branch target identification.)
core::arch::global_asm!(
    ".pushsection .text.timeloom_be_traced, \"ax\", @progbits",
    ".globl timeloom_be_traced",
    ".hidden timeloom_be_traced",
    ".type timeloom_be_traced, @function",
    ".balign 4",
    "timeloom_be_traced:",
    ".cfi_startproc",
    "svc #0",
    "mov x0, x9",
    "mov x8, x10",
    "ret x11",
    ".cfi_endproc",
    ".size timeloom_be_traced, . - timeloom_be_traced",
    ".popsection",
);
