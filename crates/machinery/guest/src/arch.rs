//! Processor-specific code by which the supervisor controls other processes. Each module provides
//!
//! - the access to a stopped thread's registers, and the registers for a system call;
//! - `SYSCALL`, the bytes of a system call instruction, and `INSTRUCTION_ALIGN`;
//! - the jump that redirects a function of the kernel's vDSO;
//! - `AUDIT_ARCH` and other numbers assigned by the kernel.

#[cfg(target_arch = "aarch64")]
mod aarch64;
#[cfg(target_arch = "x86_64")]
mod x86_64;

#[cfg(target_arch = "aarch64")]
pub(crate) use aarch64::*;
#[cfg(target_arch = "x86_64")]
pub(crate) use x86_64::*;

/// Registers of a thread, in the format of ptrace.
pub(crate) use libc::user_regs_struct as Registers;

/// Returns `word`, a word of a program's code, with its first bytes replaced by a system call
/// instruction.
pub(crate) fn with_syscall(word: u64) -> u64 {
    let mut bytes = word.to_le_bytes();
    bytes[..SYSCALL.len()].copy_from_slice(&SYSCALL);
    u64::from_le_bytes(bytes)
}

/// Returns the offset of the first system call instruction in `code`, in bytes; `None` if there is
/// none.
pub(crate) fn find_syscall(code: &[u8]) -> Option<usize> {
    (0..code.len())
        .step_by(INSTRUCTION_ALIGN)
        .find(|&at| code[at..].starts_with(&SYSCALL))
}

/// Maximum stack use of the image's signal handler in bytes, not counting the frame made by the
/// kernel. The measured maximum is 1744 bytes, on ARM.
pub(crate) const HANDLER_STACK: u64 = 2048;
