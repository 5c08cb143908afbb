//! x86-64.

use super::Registers;

/// AUDIT_ARCH_X86_64, by which a seccomp filter identifies the architecture.
pub(crate) const AUDIT_ARCH: u32 = 0xc000_003e;

/// Name of the kernel's clock source that is the processor's counter.
pub(crate) const CLOCKSOURCE: &str = "tsc";

/// R_X86_64_RELATIVE: type of the only relocations in the image.
pub(crate) const RELATIVE: u32 = object::elf::R_X86_64_RELATIVE;

/// System call instruction, `syscall`.
pub(crate) const SYSCALL: [u8; 2] = [0x0f, 0x05];

/// Alignment of instructions in bytes: they have none.
pub(crate) const INSTRUCTION_ALIGN: usize = 1;

/// Minimum size of an alternate signal stack. There is none, since the kernel itself checks that a
/// signal fits onto the stack.
pub(crate) const LEAST_SIGNAL_STACK: u64 = 0;

/// Number of `vfork`.
pub(crate) const VFORK: Option<i64> = Some(libc::SYS_vfork);

/// True if the auxiliary vector of programs states the stack use of a signal in a session. It does
/// not: glibc would set the minimum thread stack to four times that value, and refuse threads with
/// a stack of 16 KiB, which many programs have.
pub(crate) const TELLS_SIGNAL_STACK: bool = false;

/// Prefix of the function names in the kernel's vDSO, and the number of those functions that the
/// image implements.
#[cfg(test)]
pub(crate) const VDSO: (&str, usize) = ("__vdso_", 4);

/// Returns the address at which the thread continues.
pub(crate) fn instruction(registers: &Registers) -> u64 {
    registers.rip
}

/// Sets the address at which the thread continues.
pub(crate) fn set_instruction(registers: &mut Registers, address: u64) {
    registers.rip = address;
}

/// Returns the thread's stack pointer.
pub(crate) fn stack(registers: &Registers) -> u64 {
    registers.rsp
}

/// Returns the result of the last system call.
pub(crate) fn result(registers: &Registers) -> i64 {
    registers.rax as i64
}

/// Returns registers with which the thread makes a system call by the instruction at `at`.
pub(crate) fn calling(base: &Registers, at: u64, number: i64, args: [u64; 6]) -> Registers {
    let mut registers = *base;
    registers.rip = at;
    registers.rax = number as u64;
    // Disables the restart logic: the kernel must not take this call for one that it has
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

/// Returns registers with which a thread makes `PTRACE_TRACEME` by the image's code at `routine`,
/// and then repeats its exec, with the arguments `args`, by the instruction at `at`.
pub(crate) fn tracing_then(base: &Registers, routine: u64, at: u64, args: [u64; 6]) -> Registers {
    let [path, arguments, environment, ..] = args;
    let exec = libc::SYS_execve as u64;
    let traceme = [0, arguments, environment, at, path, exec];
    calling(base, routine, libc::SYS_ptrace, traceme)
}

/// Returns a copy of the registers with another stack pointer.
pub(crate) fn with_stack(base: &Registers, stack: u64) -> Registers {
    let mut registers = *base;
    registers.rsp = stack;
    registers
}

/// Size of the code of [`jump`], in bytes.
pub(crate) const JUMP_BYTES: usize = 14;

/// Returns code that jumps to the address `to`: `jmp *0(%rip)` and the address.
pub(crate) fn jump(to: u64) -> [u8; JUMP_BYTES] {
    let mut code = [0; JUMP_BYTES];
    code[..2].copy_from_slice(&[0xff, 0x25]);
    code[6..].copy_from_slice(&to.to_le_bytes());
    code
}

/// Functions of the kernel's vDSO that read no time and are therefore not replaced.
pub(crate) const KEPT: &[&str] = &["__vdso_sgx_enter_enclave"];

/// Returns true if the first `length` bytes of `code` are filler that assemblers put between
/// functions: `nop` in all its lengths, and `int3`.
pub(crate) fn is_filler(mut code: &[u8], length: usize) -> bool {
    let Some(end) = code.len().checked_sub(length) else {
        return false;
    };
    while code.len() > end {
        let prefixes = code.iter().take_while(|it| matches!(it, 0x66 | 0x2e));
        let prefixes = prefixes.count();
        let operand = match &code[prefixes..] {
            [0x90 | 0xcc, ..] => 1,
            [0x0f, 0x1f, 0x00, ..] => 3,
            [0x0f, 0x1f, 0x40, ..] => 4,
            [0x0f, 0x1f, 0x44, ..] => 5,
            [0x0f, 0x1f, 0x80, ..] => 7,
            [0x0f, 0x1f, 0x84, ..] => 8,
            _ => return false,
        };
        match code.get(prefixes + operand..) {
            Some(rest) => code = rest,
            None => return false,
        }
    }
    true
}

#[cfg(test)]
mod tests {
    use super::is_filler;

    #[test]
    fn padding_between_functions_is_told_from_code() {
        let long = [0x66, 0x66, 0x2e, 0x0f, 0x1f, 0x84, 0, 0, 0, 0, 0];
        assert!(is_filler(&long, 11) && is_filler(&long, 9));
        assert!(is_filler(&[0x90, 0xcc, 0x0f, 0x1f, 0, 0x53], 5));
        assert!(!is_filler(&[0x90, 0xcc, 0x0f, 0x1f, 0, 0x53], 6), "push");
        assert!(!is_filler(&[0x66, 0x2e], 2), "prefixes of nothing");
        assert!(!is_filler(&[0x0f, 0x1f], 2), "cut off");
    }
}
