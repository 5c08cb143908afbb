//! x86-64.

use super::Registers;

/// AUDIT_ARCH_X86_64.
pub(crate) const AUDIT_ARCH: u32 = 0xc000_003e;

/// The kernel's name for the processor's counter.
pub(crate) const CLOCKSOURCE: &str = "tsc";

/// R_X86_64_RELATIVE.
pub(crate) const RELATIVE: u32 = object::elf::R_X86_64_RELATIVE;

/// `syscall`.
pub(crate) const SYSCALL: [u8; 2] = [0x0f, 0x05];

/// Instructions lie anywhere.
pub(crate) const INSTRUCTION_ALIGN: usize = 1;

/// The kernel itself looks whether a signal fits onto an alternate stack, so there is
/// no least size.
pub(crate) const LEAST_SIGNAL_STACK: u64 = 0;

/// `vfork`.
pub(crate) const VFORK: Option<i64> = Some(libc::SYS_vfork);

/// Programs are not told how much stack a signal takes under the clock: glibc would
/// make four times that the least stack of a thread, and refuse threads of 16 KiB, as
/// many programs have them.
pub(crate) const TELLS_SIGNAL_STACK: bool = false;

/// What a kernel's vDSO puts before the names of its functions, and how many of
/// them we have.
#[cfg(test)]
pub(crate) const VDSO: (&str, usize) = ("__vdso_", 4);

/// Where the thread goes on.
pub(crate) fn instruction(registers: &Registers) -> u64 {
    registers.rip
}

/// Its stack pointer.
pub(crate) fn stack(registers: &Registers) -> u64 {
    registers.rsp
}

/// What its last call returned.
pub(crate) fn result(registers: &Registers) -> i64 {
    registers.rax as i64
}

/// The registers with which it makes a call by the instruction at `at`.
pub(crate) fn calling(base: &Registers, at: u64, number: i64, args: [u64; 6]) -> Registers {
    let mut registers = *base;
    registers.rip = at;
    registers.rax = number as u64;
    // No restart logic: the kernel must not take this for a call that it
    // interrupted.
    registers.orig_rax = u64::MAX;
    [
        registers.rdi,
        registers.rsi,
        registers.rdx,
        registers.r10,
        registers.r8,
        registers.r9,
    ] = args;
    registers
}

/// Words of code that [`jump`] takes, and the bytes of them that it changes.
pub(crate) const JUMP_WORDS: usize = 2;
pub(crate) const JUMP_BYTES: u64 = 14;

/// `jmp *0(%rip)` and the address; `last` is what the last word holds now.
pub(crate) fn jump(to: u64, last: u64) -> [u64; JUMP_WORDS] {
    let first = 0x25ff_u64 | (to << 48);
    let second = (to >> 16) | (last & 0xffff_0000_0000_0000);
    [first, second]
}
