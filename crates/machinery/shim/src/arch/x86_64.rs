//! x86-64.

use core::arch::asm;

mod entry;
mod fault;
#[cfg(timeloom_image)]
mod memory;
mod old_calls;
pub(crate) mod own_nr;
mod traced;
pub(crate) mod tsc;

pub(crate) use fault::is_emulated;
pub(crate) use old_calls::{epoll_wait, futimesat, poll, select, time, utime, utimes};
pub(crate) use tsc::prctl;

use crate::abi::SignalInfo;
use crate::intercepted::{KEPT_BITS, SA_RESTORER, is_handler};
use crate::signal::Action;
use crate::sys::errno::EINTR;
use crate::wait::CUT_SHORT;

/// AUDIT_ARCH_X86_64, by which a seccomp filter identifies the architecture.
pub(crate) const AUDIT_ARCH: u32 = 0xc000_003e;

/// Makes a raw system call. Returns the kernel's result: a value, or a negated errno in -4095…-1.
///
/// # Safety
/// Pointers in the arguments must be valid for the call.
#[inline(always)]
pub(crate) unsafe fn syscall(nr: usize, args: [usize; 6]) -> isize {
    let result: isize;
    // SAFETY: guaranteed by the caller; rcx and r11 are declared.
    unsafe {
        asm!(
            "syscall",
            inlateout("rax") nr as isize => result,
            in("rdi") args[0],
            in("rsi") args[1],
            in("rdx") args[2],
            in("r10") args[3],
            in("r8") args[4],
            in("r9") args[5],
            lateout("rcx") _,
            lateout("r11") _,
            options(nostack),
        );
    }
    result
}

/// Defines a function that makes a system call at a site: an instruction address that rewritten
/// filters know.
macro_rules! site {
    ($(#[$meta:meta])* $name:ident, $symbol:ident) => {
        $(#[$meta])*
        ///
        /// # Safety
        /// Same requirements as [`syscall`].
        pub(crate) unsafe fn $name(nr: usize, args: [usize; 6]) -> isize {
            unsafe extern "C" {
                fn $symbol();
            }
            let result: isize;
            // SAFETY: guaranteed by the caller; rcx and r11 are declared.
            unsafe {
                asm!(
                    "call {site}",
                    site = sym $symbol,
                    inlateout("rax") nr as isize => result,
                    in("rdi") args[0],
                    in("rsi") args[1],
                    in("rdx") args[2],
                    in("r10") args[3],
                    in("r8") args[4],
                    in("r9") args[5],
                    lateout("rcx") _,
                    lateout("r11") _,
                );
            }
            result
        }
    };
}

site! {
    /// Asks whether the program's own filters would end the program for this call.
    foresee, timeloom_foresee
}
site! {
    /// Asks for the verdict of the program's own filters on this call.
    judge, timeloom_judge
}
site! {
    /// Makes a call that the program's own filters judge as if the program had made it.
    syscall_as_program, timeloom_as_program
}

// `timeloom_abi::calls::verdict` defines the addresses after these instructions.
core::arch::global_asm!(
    ".pushsection .text.timeloom_sites, \"ax\", @progbits",
    ".globl timeloom_foresee, timeloom_judge, timeloom_as_program",
    ".hidden timeloom_foresee, timeloom_judge, timeloom_as_program",
    ".irp name, timeloom_foresee, timeloom_judge, timeloom_as_program",
    ".type \\name, @function",
    ".balign 8, 0xcc",
    "\\name:",
    ".cfi_startproc",
    "syscall",
    "ret",
    ".cfi_endproc",
    ".size \\name, . - \\name",
    ".endr",
    ".popsection",
);

/// Interrupted context, the argument of a signal handler (`ucontext_t`).
#[repr(C)]
pub(crate) struct Context {
    flags: u64,
    link: u64,
    stack: [u64; 3],
    /// General registers (`gregs`), in the order of `REG_*` of `<sys/ucontext.h>`.
    registers: [u64; 23],
    fpregs: u64,
    reserved: [u64; 8],
    /// Signal mask that the return from the handler restores.
    pub(crate) mask: u64,
}

const _: () = assert!(core::mem::offset_of!(Context, mask) == 296);

/// Returns the address of the signal's frame, which contains the context.
pub(crate) fn frame(_: &SignalInfo, context: &Context) -> usize {
    // The return address precedes the context.
    (&raw const *context as usize).wrapping_sub(size_of::<usize>())
}

/// Returns the context that an `rt_sigreturn` at this stack pointer restores.
pub(crate) fn frame_at(stack_pointer: usize) -> *mut Context {
    stack_pointer as *mut Context
}

/// Returns the address of the image's own `rt_sigreturn`. Handlers return to it
/// ([`returning_through_the_image`]), and it replaces an `rt_sigreturn` of the program.
pub(crate) fn restorer() -> usize {
    &raw const timeloom_restorer as usize
}

/// Returns the program's action, changed so that the handler returns through the image. The image
/// then checks the mask that the handler leaves in its frame. (The C library sets a restorer in
/// every action; a trap at each return would more than double the cost of a signal.) If unwinders
/// cannot find the image's tables, they need the program's restorer, whose `rt_sigreturn` traps.
pub(crate) fn returning_through_the_image(program: &Action) -> Action {
    // SAFETY: the value is constant; the supervisor sets it before the image is mapped.
    let is_listed = unsafe { (&raw const TIMELOOM_IS_LISTED).read_volatile() } != 0;
    if !is_listed || !is_handler(program.handler) || program.flags & SA_RESTORER == 0 {
        return *program;
    }
    Action {
        restorer: restorer(),
        ..*program
    }
}

unsafe extern "C" {
    static timeloom_restorer: u8;
}

/// Non-zero if the program was given the vDSO by which unwinders find the image's tables. A program
/// attached to a running session was not: its copy of the image has zero here.
#[unsafe(no_mangle)]
static TIMELOOM_IS_LISTED: u32 = 1;

impl Context {
    const R8: usize = 0;
    const R9: usize = 1;
    const R10: usize = 2;
    const RDI: usize = 8;
    const RSI: usize = 9;
    const RDX: usize = 12;
    const RAX: usize = 13;
    const RCX: usize = 14;
    const RSP: usize = 15;
    const RIP: usize = 16;
    const ERROR: usize = 19;
    const TRAP: usize = 20;

    /// Returns the address and the size of the thread's alternate stack.
    pub(crate) fn alternate_stack(&self) -> [usize; 2] {
        [self.stack[0] as usize, self.stack[2] as usize]
    }

    /// Returns the stack pointer of the interrupted code.
    pub(crate) fn stack_pointer(&self) -> usize {
        self.registers[Self::RSP] as usize
    }

    /// Returns the six arguments of the interrupted system call.
    pub(crate) fn arguments(&self) -> [usize; 6] {
        [
            Self::RDI,
            Self::RSI,
            Self::RDX,
            Self::R10,
            Self::R8,
            Self::R9,
        ]
        .map(|index| self.registers[index] as usize)
    }

    /// Returns the result of the interrupted call.
    pub(crate) fn result(&self) -> isize {
        self.registers[Self::RAX] as isize
    }

    pub(crate) fn set_result(&mut self, value: isize) {
        self.registers[Self::RAX] = value as u64;
    }

    /// Sets the registers in which `rdtsc` returns its value, in two halves.
    fn set_counter(&mut self, ticks: u64) {
        self.registers[Self::RAX] = ticks & 0xffff_ffff;
        self.registers[Self::RDX] = ticks >> 32;
    }

    /// Sets the register in which `rdtscp` returns the processor's number.
    fn set_processor(&mut self, number: u64) {
        self.registers[Self::RCX] = number;
    }

    /// Returns true if the interruption was a general protection fault that concerns no segment.
    fn is_general_protection(&self) -> bool {
        self.registers[Self::TRAP] == 13 && self.registers[Self::ERROR] == 0
    }

    /// Returns the address of the interrupted instruction.
    pub(crate) fn instruction(&self) -> usize {
        self.registers[Self::RIP] as usize
    }

    pub(crate) fn set_instruction(&mut self, address: usize) {
        self.registers[Self::RIP] = address as u64;
    }
}

// Functions of the vDSO, by their names, and weak symbols without the prefix, as in the kernel's
// vDSO. They jump to the image's functions by absolute address, since a program may move the pages
// of its vDSO. Only the image is linked to a fixed address.
#[cfg(timeloom_image)]
core::arch::global_asm!(
    ".macro export name",
    ".balign 16",
    ".globl __vdso_\\name",
    ".type __vdso_\\name, @function",
    "__vdso_\\name:",
    ".cfi_startproc",
    "movabs rax, offset timeloom_vdso_\\name",
    "jmp rax",
    ".cfi_endproc",
    ".size __vdso_\\name, . - __vdso_\\name",
    ".weak \\name",
    ".set \\name, __vdso_\\name",
    ".type \\name, @function",
    ".endm",
    ".pushsection .text.timeloom_stubs, \"ax\", @progbits",
    "export clock_gettime",
    "export gettimeofday",
    "export time",
    "export clock_getres",
    "export getcpu",
    "export getrandom",
    ".popsection",
);

// The only instruction at which guests block in the kernel; `wait.rs` explains the labels. (rcx and
// r11 are free until `syscall` overwrites them.)
core::arch::global_asm!(
    ".pushsection .text.timeloom_wait, \"ax\", @progbits",
    ".globl timeloom_wait, timeloom_wait_begin, timeloom_wait_end, timeloom_wait_cut_short",
    ".hidden timeloom_wait, timeloom_wait_begin, timeloom_wait_end, timeloom_wait_cut_short",
    ".type timeloom_wait, @function",
    "timeloom_wait:",
    ".cfi_startproc",
    "push rcx",
    ".cfi_adjust_cfa_offset 8",
    // This is where a handler's frame would end: below the red zone. The last word of a frame
    // describes the layout of the processor state before it, and is not zero.
    "xorps xmm0, xmm0",
    "movups [rsp - 144], xmm0",
    "movups [rsp - 160], xmm0",
    "movups [rsp - 176], xmm0",
    "movups [rsp - 192], xmm0",
    "movups [rsp - 208], xmm0",
    "mov r11, rsi",
    "mov ecx, edx",
    "mov rax, [rdi]",
    "mov rsi, [rdi + 16]",
    "mov rdx, [rdi + 24]",
    "mov r10, [rdi + 32]",
    "mov r8, [rdi + 40]",
    "mov r9, [rdi + 48]",
    "mov rdi, [rdi + 8]",
    "timeloom_wait_begin:",
    "cmp [r11], ecx",
    "jne timeloom_wait_cut_short",
    "syscall",
    "timeloom_wait_end:",
    "cmp rax, {interrupted}",
    "je 3f",
    "2:",
    "pop rcx",
    ".cfi_adjust_cfa_offset -8",
    "ret",
    ".cfi_adjust_cfa_offset 8",
    "3:",
    "movups xmm0, [rsp - 144]",
    "movups xmm1, [rsp - 160]",
    "orps xmm0, xmm1",
    "movups xmm1, [rsp - 176]",
    "orps xmm0, xmm1",
    "movups xmm1, [rsp - 192]",
    "orps xmm0, xmm1",
    "movups xmm1, [rsp - 208]",
    "orps xmm0, xmm1",
    "xorps xmm1, xmm1",
    "pcmpeqb xmm0, xmm1",
    "pmovmskb ecx, xmm0",
    "cmp ecx, 0xffff",
    "jne 2b",
    "timeloom_wait_cut_short:",
    "mov rax, {cut_short}",
    "pop rcx",
    ".cfi_adjust_cfa_offset -8",
    "ret",
    ".cfi_endproc",
    ".size timeloom_wait, . - timeloom_wait",
    ".popsection",
    cut_short = const CUT_SHORT,
    interrupted = const EINTR,
);

// Return address of signal handlers, the image's and the program's. If the mask in the frame blocks
// a signal that is reserved by the image, the mask is repaired first. All registers are restored
// from the frame, so this code may change any. The unwind information refers to the interrupted
// context for all registers. So the cancellation of a thread during a wait, an exception thrown
// from a handler and a debugger all unwind through this frame. The letters mean: 'z' length, 'R'
// encoding, 'S' signal frame. Offsets are those of `mcontext_t` in the `ucontext_t` to which rsp
// points here.
core::arch::global_asm!(
    ".pushsection .text.timeloom_restorer, \"ax\", @progbits",
    ".globl timeloom_restorer, timeloom_syscall",
    ".hidden timeloom_restorer, timeloom_syscall",
    ".type timeloom_restorer, @function",
    ".cfi_startproc",
    ".cfi_signal_frame",
    ".cfi_def_cfa rsp, 0",
    // DW_CFA_def_cfa_expression: DW_OP_breg7 (rsp) 160, DW_OP_deref.
    ".cfi_escape 0x0f, 0x04, 0x77, 0xa0, 0x01, 0x06",
    // DW_CFA_expression REG: DW_OP_breg7 offset (both LEB128).
    ".cfi_escape 0x10, 0x08, 0x02, 0x77, 0x28", // r8 at 40
    ".cfi_escape 0x10, 0x09, 0x02, 0x77, 0x30", // r9 at 48
    ".cfi_escape 0x10, 0x0a, 0x02, 0x77, 0x38", // r10 at 56
    ".cfi_escape 0x10, 0x0b, 0x03, 0x77, 0xc0, 0x00", // r11 at 64
    ".cfi_escape 0x10, 0x0c, 0x03, 0x77, 0xc8, 0x00", // r12 at 72
    ".cfi_escape 0x10, 0x0d, 0x03, 0x77, 0xd0, 0x00", // r13 at 80
    ".cfi_escape 0x10, 0x0e, 0x03, 0x77, 0xd8, 0x00", // r14 at 88
    ".cfi_escape 0x10, 0x0f, 0x03, 0x77, 0xe0, 0x00", // r15 at 96
    ".cfi_escape 0x10, 0x05, 0x03, 0x77, 0xe8, 0x00", // rdi at 104
    ".cfi_escape 0x10, 0x04, 0x03, 0x77, 0xf0, 0x00", // rsi at 112
    ".cfi_escape 0x10, 0x06, 0x03, 0x77, 0xf8, 0x00", // rbp at 120
    ".cfi_escape 0x10, 0x03, 0x03, 0x77, 0x80, 0x01", // rbx at 128
    ".cfi_escape 0x10, 0x01, 0x03, 0x77, 0x88, 0x01", // rdx at 136
    ".cfi_escape 0x10, 0x00, 0x03, 0x77, 0x90, 0x01", // rax at 144
    ".cfi_escape 0x10, 0x02, 0x03, 0x77, 0x98, 0x01", // rcx at 152
    ".cfi_escape 0x10, 0x07, 0x03, 0x77, 0xa0, 0x01", // rsp at 160
    ".cfi_escape 0x10, 0x10, 0x03, 0x77, 0xa8, 0x01", // rip at 168
    // An unwinder looks up the address before the return address.
    "nop",
    "timeloom_restorer:",
    "test dword ptr [rsp + {mask}], {kept}",
    "jz 1f",
    "mov rdi, rsp",
    "call timeloom_repair_mask",
    "1:",
    "mov eax, 15", // rt_sigreturn
    "timeloom_syscall:",
    "syscall",
    // End of the calls that the launcher injects.
    "int3",
    ".cfi_endproc",
    ".size timeloom_restorer, . - timeloom_restorer",
    ".popsection",
    mask = const core::mem::offset_of!(Context, mask),
    kept = const KEPT_BITS,
);
