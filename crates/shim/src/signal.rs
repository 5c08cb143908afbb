//! Signal masks and actions: SIGSYS stays ours.
//!
//! A trapped call while SIGSYS is blocked, or handled by the program, would
//! kill the process. So no mask ever contains it and no action replaces it.

use crate::abi::{Context, SIGSYS_BIT};
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
    let before = context.mask;
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
        context.mask = after & !SIGSYS_BIT;
    }
    if old == 0 {
        return 0;
    }
    // Asked of the kernel with no new set: checks the pointer and writes the
    // mask now in force, which is the interrupted context's old one.
    // SAFETY: the kernel checks the pointer.
    unsafe { syscall(nr::RT_SIGPROCMASK, [0, 0, old, 8, 0, 0]) }
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

/// Whether one of these pending signals would interrupt a wait: it has a
/// handler, or ends the program. One that is ignored, by the program or by
/// default, or that stops, does not.
pub(crate) fn interrupts(pending: u64) -> bool {
    (1..=64).any(|signal| {
        if pending & (1 << (signal - 1)) == 0 {
            return false;
        }
        let mut action = Action {
            handler: 0,
            flags: 0,
            restorer: 0,
            mask: 0,
        };
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
    if size != 8 || action == 0 {
        // SAFETY: the kernel checks the pointers.
        return unsafe { syscall(nr::RT_SIGACTION, args) };
    }
    if !readable(action, size_of::<Action>()) {
        return errno::EFAULT;
    }
    // SAFETY: the kernel has just read both ends of it.
    let mut wanted = unsafe { (action as *const Action).read_unaligned() };
    if signal == SIGSYS {
        return answer_sigsys(old);
    }
    wanted.mask &= !SIGSYS_BIT;
    // SAFETY: the kernel checks `old`; `wanted` is ours.
    unsafe {
        syscall(
            nr::RT_SIGACTION,
            [signal, &raw const wanted as usize, old, 8, 0, 0],
        )
    }
}

/// Says yes and does nothing; the old action is given as the default one.
fn answer_sigsys(old: usize) -> isize {
    if old == 0 {
        return 0;
    }
    // Any other signal's query finds out whether `old` may be written.
    // SAFETY: the kernel checks the pointer.
    let result = unsafe { syscall(nr::RT_SIGACTION, [1, 0, old, 8, 0, 0]) };
    if result == 0 {
        let default = Action {
            handler: 0,
            flags: 0,
            restorer: 0,
            mask: 0,
        };
        // SAFETY: the kernel has just written there.
        unsafe { (old as *mut Action).write_unaligned(default) };
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
#[repr(C)]
struct Action {
    handler: usize,
    flags: u64,
    restorer: usize,
    mask: u64,
}

const SIGSYS: usize = 31;
// SIGCHLD, SIGCONT, SIGSTOP, SIGTSTP, SIGTTIN, SIGTTOU.
const SIGCHLD: usize = 17;
const SIGTTOU: usize = 22;
const SIGURG: usize = 23;
const SIGWINCH: usize = 28;
const SIG_DFL: usize = 0;
const SIG_IGN: usize = 1;
const SIG_BLOCK: i32 = 0;
const SIG_UNBLOCK: i32 = 1;
const SIG_SETMASK: i32 = 2;
