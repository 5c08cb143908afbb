//! Signal masks and actions: SIGSYS stays ours.
//!
//! A trapped call while SIGSYS is blocked, or handled by the program, would
//! kill the process. So no mask ever contains it and no action replaces it.

use crate::abi::SIGSYS_BIT;
use crate::arch::Context;
use crate::arch::fault::{self, SIGSEGV, SIGSTKFLT, kernel_mask, program_mask};
use crate::clock::page;
use crate::poll::SignalMask;
use crate::sys::{errno, nr, readable, syscall};

/// `rt_sigprocmask(how, set, old, size)`: changes the mask of the interrupted
/// context, which the return from our handler puts in force. (Changed in the
/// handler itself, it would be undone by that return.)
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
        // SAFETY: the kernel has just read it.
        let set = unsafe { (set as *const u64).read_unaligned() };
        let after = match how as i32 {
            SIG_BLOCK => before | set,
            SIG_UNBLOCK => before & !set,
            SIG_SETMASK => set,
            _ => return errno::EINVAL,
        };
        context.mask = kernel_mask(after);
    }
    if old == 0 {
        return 0;
    }
    // Asked of the kernel with no new set: checks the pointer and writes the
    // mask now in force, which is the interrupted context's old one.
    // SAFETY: the kernel checks the pointer.
    let result = unsafe { syscall(nr::RT_SIGPROCMASK, [0, 0, old, 8, 0, 0]) };
    if result == 0 && page().emulates_tsc() {
        // SAFETY: the kernel has just written there.
        unsafe { (old as *mut u64).write_unaligned(before) };
    }
    result
}

/// Puts a mask in force at once, in the handler too.
pub(crate) fn set_mask(mask: u64) {
    let mask = mask & !SIGSYS_BIT;
    // SAFETY: the kernel reads eight bytes of ours.
    unsafe {
        syscall(
            nr::RT_SIGPROCMASK,
            [SIG_SETMASK as usize, &raw const mask as usize, 0, 8, 0, 0],
        )
    };
}

/// Blocks these signals at once, in the handler too. (For the emulated counter.)
#[cfg(target_arch = "x86_64")]
pub(crate) fn block(signals: u64) {
    // SAFETY: the kernel reads eight bytes of ours.
    unsafe {
        syscall(
            nr::RT_SIGPROCMASK,
            [SIG_BLOCK as usize, &raw const signals as usize, 0, 8, 0, 0],
        )
    };
}

/// Whether one of these pending signals would interrupt a wait: it has a
/// handler, or ends the program. One that is ignored, by the program or by
/// default, or that stops, does not.
pub(crate) fn interrupts(pending: u64) -> bool {
    (1..=64).any(|signal| {
        if pending & (1 << (signal - 1)) == 0 {
            return false;
        }
        let mut action = Action::DEFAULT;
        // SAFETY: the kernel writes `action`.
        unsafe {
            syscall(
                nr::RT_SIGACTION,
                [signal, 0, &raw mut action as usize, 8, 0, 0],
            )
        };
        match action.handler {
            SIG_DFL => !matches!(signal, SIGCHLD..=SIGTTOU | SIGURG | SIGWINCH),
            SIG_IGN => false,
            _ => true,
        }
    })
}

/// `rt_sigaction(signal, action, old, size)`.
pub(crate) fn rt_sigaction(args: [usize; 6]) -> isize {
    let [signal, action, old, size, ..] = args;
    let emulates_tsc = page().emulates_tsc();
    if size != 8 || (action == 0 && !emulates_tsc) {
        // SAFETY: the kernel checks the pointers.
        return unsafe { syscall(nr::RT_SIGACTION, args) };
    }
    if signal == SIGSYS && action == 0 {
        return answer_as_default(old);
    }
    let mut wanted = Action::DEFAULT;
    if action != 0 {
        if !readable(action, size_of::<Action>()) {
            return errno::EFAULT;
        }
        // SAFETY: the kernel has just read both ends of it.
        wanted = unsafe { (action as *const Action).read_unaligned() };
    }
    if signal == SIGSYS || (emulates_tsc && signal == SIGSTKFLT) {
        return answer_as_default(old);
    }
    if emulates_tsc && signal == SIGSEGV {
        wanted = fault::kernel_action(&wanted);
    } else {
        wanted.mask = kernel_mask(wanted.mask);
    }
    let wanted = if action == 0 {
        0
    } else {
        &raw const wanted as usize
    };
    // SAFETY: the kernel checks `old`; `wanted` is ours.
    let result = unsafe { syscall(nr::RT_SIGACTION, [signal, wanted, old, 8, 0, 0]) };
    if result == 0 && old != 0 && emulates_tsc {
        let old = old as *mut Action;
        // SAFETY: the kernel has just written there.
        let mut shown = unsafe { old.read_unaligned() };
        if signal == SIGSEGV {
            shown = fault::program_action(&shown);
        } else {
            shown.mask = program_mask(shown.mask);
        }
        // SAFETY: as above.
        unsafe { old.write_unaligned(shown) };
    }
    result
}

/// Says yes and does nothing; the old action is given as the default one.
fn answer_as_default(old: usize) -> isize {
    if old == 0 {
        return 0;
    }
    // Any other signal's query finds out whether `old` may be written.
    // SAFETY: the kernel checks the pointer.
    let result = unsafe { syscall(nr::RT_SIGACTION, [1, 0, old, 8, 0, 0]) };
    if result == 0 {
        // SAFETY: the kernel has just written there.
        unsafe { (old as *mut Action).write_unaligned(Action::DEFAULT) };
    }
    result
}

/// `rt_sigsuspend(mask, size)`.
pub(crate) fn rt_sigsuspend(args: [usize; 6]) -> isize {
    match SignalMask::load(args[0], args[1]) {
        // SAFETY: the mask is ours and lives until the call returns.
        Ok(mask @ SignalMask::During(_)) => unsafe {
            syscall(nr::RT_SIGSUSPEND, [mask.address(), 8, 0, 0, 0, 0])
        },
        // SAFETY: invalid, so that the kernel refuses.
        _ => unsafe { syscall(nr::RT_SIGSUSPEND, args) },
    }
}

/// The kernel's `struct sigaction`.
#[derive(Clone, Copy)]
#[repr(C)]
pub(crate) struct Action {
    pub(crate) handler: usize,
    pub(crate) flags: u64,
    pub(crate) restorer: usize,
    pub(crate) mask: u64,
}

impl Action {
    /// The default one.
    pub(crate) const DEFAULT: Self = Self {
        handler: SIG_DFL,
        flags: 0,
        restorer: 0,
        mask: 0,
    };
}

const SIGSYS: usize = 31;
// SIGCHLD, SIGCONT, SIGSTOP, SIGTSTP, SIGTTIN, SIGTTOU.
const SIGCHLD: usize = 17;
const SIGTTOU: usize = 22;
const SIGURG: usize = 23;
const SIGWINCH: usize = 28;
pub(crate) const SIG_DFL: usize = 0;
pub(crate) const SIG_IGN: usize = 1;
const SIG_BLOCK: i32 = 0;
const SIG_UNBLOCK: i32 = 1;
const SIG_SETMASK: i32 = 2;
