//! 64-bit ARM.

use super::Registers;

/// AUDIT_ARCH_AARCH64.
pub(crate) const AUDIT_ARCH: u32 = 0xc000_00b7;

/// The kernel's name for the processor's counter.
pub(crate) const CLOCKSOURCE: &str = "arch_sys_counter";

/// R_AARCH64_RELATIVE.
pub(crate) const RELATIVE: u32 = object::elf::R_AARCH64_RELATIVE;

/// `svc #0`.
pub(crate) const SYSCALL: [u8; 4] = 0xd400_0001_u32.to_le_bytes();

/// All instructions have four bytes.
pub(crate) const INSTRUCTION_ALIGN: usize = 4;

/// Minimum size of an alternate signal stack: two frames of the kernel's (a handler of the program,
/// and within it ours), each of 4704 bytes where no vectors longer than 64 bytes are in use, and
/// the use of our handler.
pub(crate) const LEAST_SIGNAL_STACK: u64 = 2 * 4704 + super::HANDLER_STACK;

/// `vfork`, which ARM does not have.
pub(crate) const VFORK: Option<i64> = None;

/// True if programs are told the stack use of a signal under the clock. (glibc's minimum thread
/// stack is larger than four times that.)
pub(crate) const TELLS_SIGNAL_STACK: bool = true;

/// Prefix of the function names in a kernel's vDSO, and the number of them that we have.
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

/// Returns the stack pointer.
pub(crate) fn stack(registers: &Registers) -> u64 {
    registers.sp
}

/// Returns the result of the last system call.
pub(crate) fn result(registers: &Registers) -> i64 {
    registers.regs[0] as i64
}

/// Returns registers with which the thread makes a call by the instruction at `at`. (The kernel has
/// decided about the restart of an interrupted call before the thread stopped, and checks that the
/// thread is still at that call.)
pub(crate) fn calling(base: &Registers, at: u64, number: i64, args: [u64; 6]) -> Registers {
    let mut registers = *base;
    registers.pc = at;
    registers.regs[8] = number as u64;
    registers.regs[..6].copy_from_slice(&args);
    registers
}

/// Returns registers with which a thread makes `PTRACE_TRACEME` by the image's code at `routine`,
/// and then repeats its exec by the instruction at `at`.
pub(crate) fn tracing_then(base: &Registers, routine: u64, at: u64, args: [u64; 6]) -> Registers {
    let [path, arguments, environment, ..] = args;
    let traceme = [0, arguments, environment, 0, 0, 0];
    let mut registers = calling(base, routine, libc::SYS_ptrace, traceme);
    registers.regs[9] = path;
    registers.regs[10] = libc::SYS_execve as u64;
    registers.regs[11] = at;
    registers
}

/// Returns these registers with another stack pointer.
pub(crate) fn with_stack(base: &Registers, stack: u64) -> Registers {
    let mut registers = *base;
    registers.sp = stack;
    registers
}

/// Size of the code of [`jump`], in bytes.
pub(crate) const JUMP_BYTES: usize = 20;

/// Returns `bti c` (vDSOs are built to be entered at such an instruction only), `ldr x16, #8`, `br
/// x16` and the address.
pub(crate) fn jump(to: u64) -> [u8; JUMP_BYTES] {
    let mut code = [0; JUMP_BYTES];
    let instructions = [0xd503_245f_u32, 0x5800_0050, 0xd61f_0200];
    for (place, instruction) in code.chunks_exact_mut(4).zip(instructions) {
        place.copy_from_slice(&instruction.to_le_bytes());
    }
    code[12..].copy_from_slice(&to.to_le_bytes());
    code
}

/// Functions of a vDSO that read no time and are not replaced.
pub(crate) const KEPT: &[&str] = &["__kernel_rt_sigreturn"];

/// Returns true if the first `length` bytes are `nop`, with which assemblers fill the space between
/// functions.
pub(crate) fn is_filler(code: &[u8], length: usize) -> bool {
    let nop = 0xd503_201f_u32.to_le_bytes();
    let words = code.get(..length.next_multiple_of(nop.len()));
    words.is_some_and(|words| words.chunks_exact(nop.len()).all(|word| word == nop))
}
