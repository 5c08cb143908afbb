//! The processor's counter cannot be made to trap here, so nobody stands between a
//! program and its SIGSEGV.

use crate::abi::SIGSYS_BIT;
use crate::signal::Action;
use crate::sys::{nr, syscall};

/// What the kernel is to have for a mask of the program's.
pub(crate) fn kernel_mask(program: u64) -> u64 {
    program & !SIGSYS_BIT
}

/// What the program is to see of a mask of the kernel's.
pub(crate) fn program_mask(kernel: u64) -> u64 {
    kernel
}

/// What the kernel is to have for the program's action on SIGSEGV.
pub(crate) fn kernel_action(program: &Action) -> Action {
    *program
}

/// The program's action on SIGSEGV, from what the kernel has.
pub(crate) fn program_action(kernel: &Action) -> Action {
    *kernel
}

/// What `sigtimedwait` is to wait for instead of a set.
pub(crate) fn awaited(_: usize) -> Option<u64> {
    None
}

/// The result of such a wait.
pub(crate) fn renamed(result: isize, _: usize) -> isize {
    result
}

/// `rt_sigpending(set, size)`: nothing waits under another's name.
pub(crate) fn rt_sigpending(args: [usize; 6]) -> isize {
    // SAFETY: the program's own call, on its own behalf.
    unsafe { syscall(nr::RT_SIGPENDING, args) }
}

/// `prctl(…)`, which has nothing to say of the counter here.
pub(crate) fn prctl(args: [usize; 6]) -> isize {
    // SAFETY: the program's own call, on its own behalf.
    unsafe { syscall(nr::PRCTL, args) }
}

pub(crate) const SIGSEGV: usize = 11;
pub(crate) const SIGSTKFLT: usize = 16;
