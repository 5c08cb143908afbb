//! 64-bit ARM.

use super::Registers;

/// AUDIT_ARCH_AARCH64, by which a seccomp filter identifies the architecture.
pub(crate) const AUDIT_ARCH: u32 = 0xc000_00b7;

/// Name of the kernel's clock source that is the processor's counter.
pub(crate) const CLOCKSOURCE: &str = "arch_sys_counter";

/// R_AARCH64_RELATIVE: type of the only relocations in the image.
pub(crate) const RELATIVE: u32 = object::elf::R_AARCH64_RELATIVE;

/// System call instruction, `svc #0`.
pub(crate) const SYSCALL: [u8; 4] = 0xd400_0001_u32.to_le_bytes();

/// Alignment of instructions in bytes: all have four bytes.
pub(crate) const INSTRUCTION_ALIGN: usize = 4;

/// Minimum size of an alternate signal stack, in bytes. It must fit two frames of the kernel (of a
/// handler of the program, and within it of the image's), and the stack use of the image's handler.
/// A frame has 4704 bytes where no vectors longer than 64 bytes are in use.
pub(crate) const LEAST_SIGNAL_STACK: u64 = 2 * 4704 + super::HANDLER_STACK;

/// Number of `vfork`, which this architecture does not have.
pub(crate) const VFORK: Option<i64> = None;

/// True if the auxiliary vector of programs states the stack use of a signal in a session. (glibc's
/// minimum thread stack is larger than four times that value.)
pub(crate) const TELLS_SIGNAL_STACK: bool = true;

/// Prefix of the function names in the kernel's vDSO, and the number of those functions that the
/// image implements.
#[cfg(test)]
pub(crate) const VDSO: (&str, usize) = ("__kernel_", 3);

/// Returns the address at which the thread continues.
pub(crate) fn instruction(registers: &Registers) -> u64 {
    registers.pc
}

/// Sets the address at which the thread continues.
pub(crate) fn set_instruction(registers: &mut Registers, address: u64) {
    registers.pc = address;
}

/// Returns the thread's stack pointer.
pub(crate) fn stack(registers: &Registers) -> u64 {
    registers.sp
}

/// Returns the result of the last system call.
pub(crate) fn result(registers: &Registers) -> i64 {
    registers.regs[0] as i64
}

/// Returns registers with which the thread makes a system call by the instruction at `at`. (The
/// kernel decides before the stop whether to restart an interrupted call, and then checks that the
/// thread is still at that call.)
pub(crate) fn calling(base: &Registers, at: u64, number: i64, args: [u64; 6]) -> Registers {
    let mut registers = *base;
    registers.pc = at;
    registers.regs[8] = number as u64;
    registers.regs[..6].copy_from_slice(&args);
    registers
}

/// Returns registers with which a thread makes `PTRACE_TRACEME` by the image's code at `routine`,
/// and then repeats its exec, with the arguments `args`, by the instruction at `at`.
pub(crate) fn tracing_then(base: &Registers, routine: u64, at: u64, args: [u64; 6]) -> Registers {
    let [path, arguments, environment, ..] = args;
    let traceme = [0, arguments, environment, 0, 0, 0];
    let mut registers = calling(base, routine, libc::SYS_ptrace, traceme);
    registers.regs[9] = path;
    registers.regs[10] = libc::SYS_execve as u64;
    registers.regs[11] = at;
    registers
}

/// Returns a copy of the registers with another stack pointer.
pub(crate) fn with_stack(base: &Registers, stack: u64) -> Registers {
    let mut registers = *base;
    registers.sp = stack;
    registers
}

/// Size of the code of [`jump`], in bytes.
pub(crate) const JUMP_BYTES: usize = 20;

/// Returns code that jumps to the address `to`: `bti c` (vDSOs are built so that calls may enter
/// only at such an instruction), `ldr x16, #8`, `br x16` and the address.
pub(crate) fn jump(to: u64) -> [u8; JUMP_BYTES] {
    let mut code = [0; JUMP_BYTES];
    let instructions = [0xd503_245f_u32, 0x5800_0050, 0xd61f_0200];
    for (place, instruction) in code.chunks_exact_mut(4).zip(instructions) {
        place.copy_from_slice(&instruction.to_le_bytes());
    }
    code[12..].copy_from_slice(&to.to_le_bytes());
    code
}

/// Functions of the kernel's vDSO that read no time and are therefore not replaced.
pub(crate) const KEPT: &[&str] = &["__kernel_rt_sigreturn"];

/// Returns true if the first `length` bytes of `code` are `nop` instructions, with which assemblers
/// fill the space between functions.
pub(crate) fn is_filler(code: &[u8], length: usize) -> bool {
    let nop = 0xd503_201f_u32.to_le_bytes();
    let words = code.get(..length.next_multiple_of(nop.len()));
    words.is_some_and(|words| words.chunks_exact(nop.len()).all(|word| word == nop))
}
