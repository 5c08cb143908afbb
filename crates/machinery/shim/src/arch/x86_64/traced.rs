//! Code with which a thread calls `PTRACE_TRACEME`, and then repeats its interrupted exec.

// The supervisor sets the registers (`tracing_then` in `guest/src/arch`): the registers for
// `ptrace(PTRACE_TRACEME)`, and in r8, r9 and r10 the exec's first argument, number and instruction
// address. Functions need not preserve these three.
core::arch::global_asm!(
    ".pushsection .text.timeloom_be_traced, \"ax\", @progbits",
    ".globl timeloom_be_traced",
    ".hidden timeloom_be_traced",
    ".type timeloom_be_traced, @function",
    "timeloom_be_traced:",
    ".cfi_startproc",
    "syscall",
    "mov rdi, r8",
    "mov rax, r9",
    "jmp r10",
    ".cfi_endproc",
    ".size timeloom_be_traced, . - timeloom_be_traced",
    ".popsection",
);
