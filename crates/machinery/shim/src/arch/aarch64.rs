//! 64-bit ARM.

use core::arch::asm;

mod entry;
mod fault;
#[cfg(timeloom_image)]
mod memory;
mod old_calls;
pub(crate) mod own_nr;
mod traced;

pub(crate) use fault::{is_emulated, prctl};
pub(crate) use old_calls::{epoll_wait, futimesat, poll, select, time, utime, utimes};

use crate::abi::SignalInfo;
use crate::signal::Action;
use crate::sys::errno::EINTR;
use crate::wait::CUT_SHORT;

/// AUDIT_ARCH_AARCH64, by which a seccomp filter identifies the architecture.
pub(crate) const AUDIT_ARCH: u32 = 0xc000_00b7;

/// Makes a raw system call. Returns the kernel's result: a value, or a negated errno in -4095…-1.
///
/// # Safety
/// Pointers in the arguments must be valid for the call.
#[inline(always)]
pub(crate) unsafe fn syscall(nr: usize, args: [usize; 6]) -> isize {
    let result: isize;
    // SAFETY: guaranteed by the caller. The kernel preserves all registers but x0. It changes x8 in
    // a call that it restarts.
    unsafe {
        asm!(
            "svc #0",
            inlateout("x8") nr => _,
            inlateout("x0") args[0] as isize => result,
            in("x1") args[1],
            in("x2") args[2],
            in("x3") args[3],
            in("x4") args[4],
            in("x5") args[5],
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
            // SAFETY: guaranteed by the caller; `bl` changes x30.
            unsafe {
                asm!(
                    "bl {site}",
                    site = sym $symbol,
                    inlateout("x8") nr => _,
                    inlateout("x0") args[0] as isize => result,
                    in("x1") args[1],
                    in("x2") args[2],
                    in("x3") args[3],
                    in("x4") args[4],
                    in("x5") args[5],
                    lateout("x30") _,
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
    ".balign 8",
    "\\name:",
    ".cfi_startproc",
    "svc #0",
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
    /// Alternate stack: address, flags, size.
    stack: [u64; 3],
    /// Signal mask that the return from the handler restores.
    pub(crate) mask: u64,
    /// Reserved space for a larger mask, and for the alignment of the next field.
    reserved: [u64; 16],
    /// First field of `mcontext_t`, of which the fields up to the floating-point registers follow.
    fault_address: u64,
    registers: [u64; 31],
    stack_pointer: u64,
    program_counter: u64,
    state: u64,
}

const _: () = {
    assert!(core::mem::offset_of!(Context, mask) == 40);
    assert!(core::mem::offset_of!(Context, fault_address) == 176);
    assert!(core::mem::offset_of!(Context, program_counter) == 440);
};

/// Returns the address of the signal's frame, which contains `info` and the context.
pub(crate) fn frame(info: &SignalInfo, _: &Context) -> usize {
    &raw const *info as usize
}

/// Returns the context that an `rt_sigreturn` at this stack pointer restores. It lies after the
/// frame's `siginfo_t`.
pub(crate) fn frame_at(stack_pointer: usize) -> *mut Context {
    stack_pointer.wrapping_add(128) as *mut Context
}

/// Returns the address of the image's own `rt_sigreturn`, which replaces that of the program.
pub(crate) fn restorer() -> usize {
    &raw const timeloom_restorer as usize
}

/// Returns the program's action unchanged. Its handlers return through the kernel's vDSO, whose
/// `rt_sigreturn` traps. If they returned through code of the image that repairs the mask,
/// unwinders would not recognise the frame by the bytes of that code.
pub(crate) fn returning_through_the_image(program: &Action) -> Action {
    *program
}

unsafe extern "C" {
    static timeloom_restorer: u8;
}

impl Context {
    /// Returns the address and the size of the thread's alternate stack.
    pub(crate) fn alternate_stack(&self) -> [usize; 2] {
        [self.stack[0] as usize, self.stack[2] as usize]
    }

    /// Returns the stack pointer of the interrupted code.
    pub(crate) fn stack_pointer(&self) -> usize {
        self.stack_pointer as usize
    }

    /// Returns the six arguments of the interrupted system call. The kernel has restored the first
    /// of them to x0 before it raised the signal.
    pub(crate) fn arguments(&self) -> [usize; 6] {
        [0, 1, 2, 3, 4, 5].map(|index| self.registers[index] as usize)
    }

    /// Returns the result of the interrupted call.
    pub(crate) fn result(&self) -> isize {
        self.registers[0] as isize
    }

    pub(crate) fn set_result(&mut self, value: isize) {
        self.registers[0] = value as u64;
    }

    /// Returns the address of the interrupted instruction.
    pub(crate) fn instruction(&self) -> usize {
        self.program_counter as usize
    }

    pub(crate) fn set_instruction(&mut self, address: usize) {
        self.program_counter = address as u64;
    }
}

// Functions of the vDSO, by their names. (There is no `time` and no `getcpu` on this architecture.)
// They jump to the image's functions by absolute address, since a program may move the pages of its
// vDSO. Only the image is linked to a fixed address.
#[cfg(timeloom_image)]
core::arch::global_asm!(
    ".macro export name",
    ".balign 16",
    ".globl __kernel_\\name",
    ".type __kernel_\\name, @function",
    "__kernel_\\name:",
    ".cfi_startproc",
    "ldr x16, 1f",
    "br x16",
    ".cfi_endproc",
    ".size __kernel_\\name, . - __kernel_\\name",
    "1:",
    ".quad timeloom_vdso_\\name",
    ".endm",
    ".pushsection .text.timeloom_stubs, \"ax\", @progbits",
    "export clock_gettime",
    "export gettimeofday",
    "export clock_getres",
    "export getrandom",
    ".popsection",
);

// The only instruction at which guests block in the kernel; `wait.rs` explains the labels. The
// stack pointer stays a multiple of 16.
core::arch::global_asm!(
    ".pushsection .text.timeloom_wait, \"ax\", @progbits",
    ".globl timeloom_wait, timeloom_wait_begin, timeloom_wait_end, timeloom_wait_cut_short",
    ".hidden timeloom_wait, timeloom_wait_begin, timeloom_wait_end, timeloom_wait_cut_short",
    ".type timeloom_wait, @function",
    ".balign 4",
    "timeloom_wait:",
    ".cfi_startproc",
    "str x3, [sp, #-16]!",
    ".cfi_adjust_cfa_offset 16",
    // This is where a handler's frame would begin: with x29 and x30, which are not zero.
    "stp xzr, xzr, [sp, #-16]",
    "mov x9, x1",
    "mov w10, w2",
    "ldr x8, [x0]",
    "ldp x1, x2, [x0, #16]",
    "ldp x3, x4, [x0, #32]",
    "ldr x5, [x0, #48]",
    "ldr x0, [x0, #8]",
    "timeloom_wait_begin:",
    "ldr w11, [x9]",
    "cmp w11, w10",
    "b.ne timeloom_wait_cut_short",
    "svc #0",
    "timeloom_wait_end:",
    "cmn x0, {interrupted}",
    "b.eq 3f",
    "2:",
    "add sp, sp, #16",
    ".cfi_adjust_cfa_offset -16",
    "ret",
    ".cfi_adjust_cfa_offset 16",
    "3:",
    "ldp x9, x10, [sp, #-16]",
    "orr x9, x9, x10",
    "cbnz x9, 2b",
    "timeloom_wait_cut_short:",
    "mov x0, {cut_short}",
    "add sp, sp, #16",
    ".cfi_adjust_cfa_offset -16",
    "ret",
    ".cfi_endproc",
    ".size timeloom_wait, . - timeloom_wait",
    ".popsection",
    cut_short = const CUT_SHORT,
    interrupted = const -EINTR,
);

// Return address of the SIGSYS handler. Unwinders recognise these two instructions by their bytes,
// as those of the kernel's own vDSO, and thereby find the interrupted context. They do so only if
// there is no unwind information, so this code has none. Unwinders look up the address before the
// return address, so code without unwind information precedes it.
core::arch::global_asm!(
    ".pushsection .text.timeloom_restorer, \"ax\", @progbits",
    ".globl timeloom_restorer, timeloom_syscall",
    ".hidden timeloom_restorer, timeloom_syscall",
    ".type timeloom_restorer, @function",
    ".balign 4",
    "nop",
    "timeloom_restorer:",
    "mov x8, #139", // rt_sigreturn
    "timeloom_syscall:",
    "svc #0",
    // End of the calls that the launcher injects.
    "brk #0",
    ".size timeloom_restorer, . - timeloom_restorer",
    ".popsection",
);
