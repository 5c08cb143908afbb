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

/// Instructions have no alignment.
pub(crate) const INSTRUCTION_ALIGN: usize = 1;

/// The kernel itself checks that a signal fits onto an alternate stack, so there is no minimum
/// size.
pub(crate) const LEAST_SIGNAL_STACK: u64 = 0;

/// `vfork`.
pub(crate) const VFORK: Option<i64> = Some(libc::SYS_vfork);

/// Programs are not told the stack use of a signal under the clock: glibc would set the minimum
/// thread stack to four times that, and refuse threads of 16 KiB, which many programs have.
pub(crate) const TELLS_SIGNAL_STACK: bool = false;

/// Prefix of the function names in a kernel's vDSO, and the number of them that we have.
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

/// Returns the stack pointer.
pub(crate) fn stack(registers: &Registers) -> u64 {
    registers.rsp
}

/// Returns the result of the last system call.
pub(crate) fn result(registers: &Registers) -> i64 {
    registers.rax as i64
}

/// Returns registers with which the thread makes a call by the instruction at `at`.
pub(crate) fn calling(base: &Registers, at: u64, number: i64, args: [u64; 6]) -> Registers {
    let mut registers = *base;
    registers.rip = at;
    registers.rax = number as u64;
    // Disables restart logic: the kernel must not take this for a call that it interrupted.
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
/// and then repeats its exec by the instruction at `at`.
pub(crate) fn tracing_then(base: &Registers, routine: u64, at: u64, args: [u64; 6]) -> Registers {
    let [path, arguments, environment, ..] = args;
    let exec = libc::SYS_execve as u64;
    let traceme = [0, arguments, environment, at, path, exec];
    calling(base, routine, libc::SYS_ptrace, traceme)
}

/// Returns these registers with another stack pointer.
pub(crate) fn with_stack(base: &Registers, stack: u64) -> Registers {
    let mut registers = *base;
    registers.rsp = stack;
    registers
}

/// Size of the code of [`jump`], in bytes.
pub(crate) const JUMP_BYTES: usize = 14;

/// Returns `jmp *0(%rip)` and the address.
pub(crate) fn jump(to: u64) -> [u8; JUMP_BYTES] {
    let mut code = [0; JUMP_BYTES];
    code[..2].copy_from_slice(&[0xff, 0x25]);
    code[6..].copy_from_slice(&to.to_le_bytes());
    code
}

/// Functions of a vDSO that read no time and are not replaced.
pub(crate) const KEPT: &[&str] = &["__vdso_sgx_enter_enclave"];

/// Returns true if the first `length` bytes are the filler of assemblers between functions: `nop`
/// in all its lengths, and `int3`.
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
    fn what_lies_between_functions_is_told_from_code() {
        let long = [0x66, 0x66, 0x2e, 0x0f, 0x1f, 0x84, 0, 0, 0, 0, 0];
        assert!(is_filler(&long, 11) && is_filler(&long, 9));
        assert!(is_filler(&[0x90, 0xcc, 0x0f, 0x1f, 0, 0x53], 5));
        assert!(!is_filler(&[0x90, 0xcc, 0x0f, 0x1f, 0, 0x53], 6), "push");
        assert!(!is_filler(&[0x66, 0x2e], 2), "prefixes of nothing");
        assert!(!is_filler(&[0x0f, 0x1f], 2), "cut off");
    }
}
