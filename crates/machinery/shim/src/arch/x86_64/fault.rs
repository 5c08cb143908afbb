//! Entry of a signal that the image handles on behalf of the program, and detection of faults
//! caused by the emulated time-stamp counter.

use super::{Context, tsc};
use crate::abi::SignalInfo;
use crate::stack::LEAST_ROOM;

/// Emulates the faulting instruction if it reads the time-stamp counter. Returns true if it did.
pub(crate) fn is_emulated(info: &SignalInfo, context: &mut Context) -> bool {
    info.code == SI_KERNEL && context.is_general_protection() && tsc::emulate(context)
}

const SI_KERNEL: i32 = 0x80;

// `intercepted.rs` describes this entry. The return address is at the top of the stack.
core::arch::global_asm!(
    ".pushsection .text.timeloom_intercepted, \"ax\", @progbits",
    ".globl timeloom_intercepted, timeloom_intercepted_once",
    ".hidden timeloom_intercepted, timeloom_intercepted_once",
    ".type timeloom_intercepted, @function",
    ".type timeloom_intercepted_once, @function",
    ".cfi_startproc",
    "timeloom_intercepted_once:",
    "mov r8d, 1",
    "jmp 1f",
    "timeloom_intercepted:",
    "xor r8d, r8d",
    "1:",
    // The stack check is the same as in `entry.rs`.
    "mov rax, rsp",
    "sub rax, [rdx + 16]",
    "cmp rax, [rdx + 32]",
    "jae 3f",
    "cmp rax, {least}",
    "jb timeloom_no_room",
    "3:",
    "mov rcx, [rsp]",
    "lea rax, [rip + timeloom_restorer]",
    "mov [rsp], rax",
    "mov rbp, rsi",
    "mov r12, rdx",
    "sub rsp, 8",
    ".cfi_adjust_cfa_offset 8",
    "call timeloom_decide",
    "add rsp, 8",
    ".cfi_adjust_cfa_offset -8",
    "test rax, rax",
    "jz 2f",
    "mov rcx, rax",
    "mov edi, [rbp]",
    "mov rsi, rbp",
    "mov rdx, r12",
    "xor eax, eax",
    "jmp rcx",
    "2:",
    "ret",
    ".cfi_endproc",
    ".size timeloom_intercepted, . - timeloom_intercepted",
    ".popsection",
    least = const LEAST_ROOM,
);
