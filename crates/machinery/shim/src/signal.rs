//! Signal masks and actions: conversion between the program's and the kernel's form.
//!
//! A trapped call would kill the process if SIGSYS were blocked, or if the program handled it. So
//! no mask in the kernel contains SIGSYS, and no action of the program replaces the image's. The
//! program's settings are stored elsewhere (`intercepted.rs`).

use crate::arch::{self, Context};
use crate::intercepted::{self, SIGSYS, home_of, kernel_mask, program_mask};
use crate::poll::SignalMask;
use crate::sys::{errno, nr, readable, syscall};
use crate::wait::at_each_rate;

/// Handles `rt_sigprocmask(how, set, old, size)`: changes the mask of the interrupted context,
/// which takes effect when the image's handler returns. (That return would undo a change of the
/// mask inside the handler.)
pub(crate) fn rt_sigprocmask(context: &mut Context) -> isize {
    let [how, set, old, size, ..] = context.arguments();
    if size != 8 {
        return errno::EINVAL;
    }
    let before = program_mask(context.mask);
    if set != 0 {
        if !readable(set, 8) {
            return errno::EFAULT;
        }
        // SAFETY: the kernel has just read the set.
        let set = unsafe { (set as *const u64).read_unaligned() };
        let after = match how as i32 {
            SIG_BLOCK => before | set,
            SIG_UNBLOCK => before & !intercepted::with_stand_ins(set),
            SIG_SETMASK => set,
            _ => return errno::EINVAL,
        };
        context.mask = kernel_mask(after);
        if how as i32 != SIG_UNBLOCK && intercepted::names_sigsys(set) {
            intercepted::show();
        }
    }
    if old == 0 {
        return 0;
    }
    // A call without a new set checks the pointer and writes the mask now in force; the program
    // must see the interrupted context's old mask instead. SAFETY: the kernel checks the pointer.
    let result = unsafe { syscall(nr::RT_SIGPROCMASK, [0, 0, old, 8, 0, 0]) };
    if result == 0 {
        // SAFETY: the kernel has just written there.
        unsafe { (old as *mut u64).write_unaligned(before) };
    }
    result
}

/// Returns the calling thread's signal mask in the kernel.
pub(crate) fn mask() -> u64 {
    let mut mask = 0u64;
    let address = &raw mut mask as usize;
    // SAFETY: the kernel writes `mask`.
    unsafe { syscall(nr::RT_SIGPROCMASK, [0, 0, address, 8, 0, 0]) };
    mask
}

/// Handles `rt_sigreturn()` made by the program itself, from the frame at its stack pointer. The
/// image makes the call instead of the program, once no mask in that frame blocks SIGSYS.
pub(crate) fn rt_sigreturn(context: &mut Context) -> isize {
    let frame = arch::frame_at(context.stack_pointer());
    // If there is no frame at the stack pointer, the kernel ends the program.
    let mask = frame as usize + core::mem::offset_of!(Context, mask);
    if readable(mask, 8) {
        // SAFETY: the kernel has just read the mask; the program may write its own frame.
        unsafe { timeloom_repair_mask(&mut *frame) };
    }
    context.set_instruction(arch::restorer());
    context.result()
}

/// Converts the mask that a frame is about to restore to the kernel's form. `timeloom_restorer`
/// calls this with the frame from which a handler of the program returns, if its mask blocks a
/// signal reserved by the image.
///
/// # Safety
/// The frame must be readable, and writable if it has to be changed.
#[unsafe(no_mangle)]
unsafe extern "C" fn timeloom_repair_mask(frame: &mut Context) {
    let written = frame.mask;
    let kernel = intercepted::without_kept(written);
    if kernel != written {
        frame.mask = kernel;
    }
    if intercepted::names_sigsys(written) {
        intercepted::show();
    }
}

/// Handles `ptrace(PTRACE_GETSIGMASK | PTRACE_SETSIGMASK, thread, size, mask)`. The tracee has an
/// image too, so its mask is in the kernel's form.
pub(crate) fn ptrace(args: [usize; 6]) -> isize {
    let [request, thread, size, mask, ..] = args;
    // SAFETY: the kernel checks the pointer.
    let native = |mask: usize| unsafe { syscall(nr::PTRACE, [request, thread, size, mask, 0, 0]) };
    if request == PTRACE_SETSIGMASK && size == 8 && readable(mask, 8) {
        // SAFETY: the kernel has just read the mask.
        let kernel = kernel_mask(unsafe { (mask as *const u64).read_unaligned() });
        return native(&raw const kernel as usize);
    }
    let result = native(mask);
    if request == PTRACE_GETSIGMASK && result == 0 {
        let mask = mask as *mut u64;
        // SAFETY: the kernel has just written there.
        unsafe { mask.write_unaligned(program_mask(mask.read_unaligned())) };
    }
    result
}

/// Sets the calling thread's mask in the kernel. This takes effect at once, inside the handler.
pub(crate) fn set_mask(mask: u64) {
    // SAFETY: the kernel reads eight bytes of the image's memory.
    unsafe {
        syscall(
            nr::RT_SIGPROCMASK,
            [SIG_SETMASK as usize, &raw const mask as usize, 0, 8, 0, 0],
        )
    };
}

/// Blocks these signals in the kernel. This takes effect at once, inside the handler.
pub(crate) fn block(signals: u64) {
    // SAFETY: the kernel reads eight bytes of the image's memory.
    unsafe {
        syscall(
            nr::RT_SIGPROCMASK,
            [SIG_BLOCK as usize, &raw const signals as usize, 0, 8, 0, 0],
        )
    };
}

/// Returns true if one of these pending signals would interrupt a wait: it has a handler, or ends
/// the program. A signal does not interrupt a wait if it is ignored, by the program or by default,
/// or if it stops the process.
pub(crate) fn interrupts(pending: u64) -> bool {
    (1..=64).any(|signal| {
        if pending & (1 << (signal - 1)) == 0 {
            return false;
        }
        match action(signal).handler {
            SIG_DFL => !matches!(signal, SIGCHLD..=SIGTTOU | SIGURG | SIGWINCH),
            SIG_IGN => false,
            _ => true,
        }
    })
}

/// Returns the action that the kernel stores for a signal.
pub(crate) fn action(signal: usize) -> Action {
    let mut action = Action::DEFAULT;
    let address = &raw mut action as usize;
    // SAFETY: the kernel writes `action`.
    unsafe { syscall(nr::RT_SIGACTION, [signal, 0, address, 8, 0, 0]) };
    action
}

/// Handles `rt_sigaction(signal, action, old, size)`.
pub(crate) fn rt_sigaction(args: [usize; 6]) -> isize {
    let [signal, action, old, size, ..] = args;
    if size != 8 {
        // SAFETY: the arguments are invalid, so the kernel refuses the call.
        return unsafe { syscall(nr::RT_SIGACTION, args) };
    }
    let mut wanted = 0;
    let mut program = Action::DEFAULT;
    let kernel;
    if action != 0 {
        if !readable(action, size_of::<Action>()) {
            return errno::EFAULT;
        }
        // SAFETY: the kernel has just read both ends of the structure.
        program = unsafe { (action as *const Action).read_unaligned() };
        kernel = intercepted::kernel_action(signal, &program);
        wanted = &raw const kernel as usize;
    }
    if intercepted::is_stand_in(signal) {
        return answer_as_default(old);
    }
    // SAFETY: the kernel checks `old`; `wanted` is in the image's memory.
    let result = unsafe { syscall(nr::RT_SIGACTION, [home_of(signal), wanted, old, 8, 0, 0]) };
    if result == 0 && old != 0 {
        let old = old as *mut Action;
        // SAFETY: the kernel has just written there.
        unsafe { old.write_unaligned(intercepted::program_action(signal, &old.read_unaligned())) };
    }
    if action != 0 && signal == SIGSYS {
        intercepted::restart_as(&program);
    }
    let is_about_sigsys = match signal {
        SIGSYS => {
            intercepted::is_handler(program.handler) && intercepted::is_of_programs(program.mask)
        }
        _ => intercepted::singles_out_sigsys(program.mask),
    };
    if action != 0 && is_about_sigsys {
        intercepted::show();
    }
    result
}

/// Reports success without an effect; stores the default action at `old` as the previous one.
fn answer_as_default(old: usize) -> isize {
    if old == 0 {
        return 0;
    }
    // A query for any other signal tests whether `old` is writable. SAFETY: the kernel checks the
    // pointer.
    let result = unsafe { syscall(nr::RT_SIGACTION, [1, 0, old, 8, 0, 0]) };
    if result == 0 {
        // SAFETY: the kernel has just written there.
        unsafe { (old as *mut Action).write_unaligned(Action::DEFAULT) };
    }
    result
}

/// Handles `rt_sigsuspend(mask, size)`.
pub(crate) fn rt_sigsuspend(args: [usize; 6]) -> isize {
    match SignalMask::load(args[0], args[1]) {
        // A signal that only this mask admits may arrive as its stand-in. Another slice follows
        // then.
        Ok(mask @ SignalMask::During(_)) => {
            // SAFETY: the mask is in the image's memory and outlives the call.
            at_each_rate(|slice| unsafe {
                slice.block(nr::RT_SIGSUSPEND, [mask.address(), 8, 0, 0, 0, 0])
            })
        }
        // SAFETY: the arguments are invalid, so the kernel refuses the call.
        _ => unsafe { syscall(nr::RT_SIGSUSPEND, args) },
    }
}

/// Signal action in the kernel's layout: `struct sigaction`.
#[derive(Clone, Copy)]
#[repr(C)]
pub(crate) struct Action {
    pub(crate) handler: usize,
    pub(crate) flags: u64,
    pub(crate) restorer: usize,
    pub(crate) mask: u64,
}

impl Action {
    /// The default action.
    pub(crate) const DEFAULT: Self = Self {
        handler: SIG_DFL,
        flags: 0,
        restorer: 0,
        mask: 0,
    };
}

// Signals whose default action does not end the program: SIGCHLD, SIGCONT, SIGSTOP, SIGTSTP,
// SIGTTIN, SIGTTOU.
const SIGCHLD: usize = 17;
const SIGTTOU: usize = 22;
const SIGURG: usize = 23;
const SIGWINCH: usize = 28;
pub(crate) const SIG_DFL: usize = 0;
pub(crate) const SIG_IGN: usize = 1;
const PTRACE_GETSIGMASK: usize = 0x420a;
const PTRACE_SETSIGMASK: usize = 0x420b;
const SIG_BLOCK: i32 = 0;
const SIG_UNBLOCK: i32 = 1;
const SIG_SETMASK: i32 = 2;
