//! What differs between processors, as the supervisor meets it in other processes.
//! Each module gives
//!
//! - how a stopped thread's registers are read, and made to make a call;
//! - `SYSCALL`, the instruction, and `INSTRUCTION_ALIGN`;
//! - the jump that redirects a function of the kernel's vDSO;
//! - `AUDIT_ARCH` and the other numbers that the kernel has given.

#[cfg(target_arch = "aarch64")]
mod aarch64;
#[cfg(target_arch = "x86_64")]
mod x86_64;

#[cfg(target_arch = "aarch64")]
pub(crate) use aarch64::*;
#[cfg(target_arch = "x86_64")]
pub(crate) use x86_64::*;

/// A thread's registers, as ptrace gives and takes them.
pub(crate) use libc::user_regs_struct as Registers;

/// `word` of a program's code with the instruction for a system call at its
/// beginning.
pub(crate) fn with_syscall(word: u64) -> u64 {
    let mut bytes = word.to_le_bytes();
    bytes[..SYSCALL.len()].copy_from_slice(&SYSCALL);
    u64::from_le_bytes(bytes)
}

/// Where such an instruction lies in some code.
pub(crate) fn find_syscall(code: &[u8]) -> Option<usize> {
    (0..code.len())
        .step_by(INSTRUCTION_ALIGN)
        .find(|&at| code[at..].starts_with(&SYSCALL))
}

/// What the image's handler needs at most, besides the frame that the kernel makes:
/// 1744 bytes on ARM.
pub(crate) const HANDLER_STACK: u64 = 2048;
