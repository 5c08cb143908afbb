//! Seccomp strict mode, which allows `read`, `write`, `exit` and `rt_sigreturn`, and ends the
//! thread by SIGKILL for all other calls.
//!
//! The kernel's own strict mode requires a thread without any filter, so the image installs a
//! filter instead.

use timeloom_abi::calls::verdict::STRICT;
use timeloom_abi::calls::{ImageCall, number};

use super::{give_up_new_privileges, has_filter};
use crate::arch::AUDIT_ARCH;
use crate::bpf::{
    ADDRESS_HIGH, ADDRESS_LOW, ARCHITECTURE, IMAGE_BEGIN, IMAGE_END, IMAGE_HIGH, Instruction,
    NUMBER, Program, RETURN_ALLOW, RETURN_TRAP, done, if_at_least, if_equal, load,
};
use crate::sys::{self, errno, nr, syscall};

/// Confines the calling thread. Fails if the program already has a filter, as natively.
pub(super) fn enter() -> isize {
    if has_filter() {
        return errno::EINVAL;
    }
    let filter = Program {
        length: FILTER.len() as u16,
        instructions: FILTER.as_ptr(),
    };
    match filter.install(0) {
        errno::EACCES => {
            // Strict mode needs no privilege, but a filter does. The program loses nothing by
            // giving up new privileges, since it can execute no other program.
            give_up_new_privileges();
            filter.install(0)
        }
        result => result,
    }
}

/// Ends the thread for a call that strict mode does not allow. If it is the last thread, the
/// process ends.
#[cold]
#[inline(never)]
pub(crate) fn end_strictly(call: usize) {
    sys::ask(ImageCall::Ended { call: call as i32 });
    // SAFETY: no pointers.
    unsafe {
        // `unshare` fails if there are other threads; otherwise it has no effect.
        if syscall(UNSHARE, [CLONE_THREAD, 0, 0, 0, 0, 0]) == 0 {
            let process = syscall(nr::GETPID, [0; 6]) as usize;
            syscall(nr::KILL, [process, SIGKILL, 0, 0, 0, 0]);
        }
        syscall(nr::EXIT, [SIGKILL, 0, 0, 0, 0, 0]);
    }
}

static FILTER: [Instruction; 15] = [
    load(ARCHITECTURE),
    if_equal(AUDIT_ARCH, 0, 12),
    load(NUMBER),
    if_equal(nr::READ as u32, 9, 0),
    if_equal(nr::WRITE as u32, 8, 0),
    if_equal(nr::EXIT as u32, 7, 0),
    if_equal(nr::RT_SIGRETURN as u32, 6, 0),
    load(ADDRESS_HIGH),
    if_equal(IMAGE_HIGH, 0, 5),
    load(ADDRESS_LOW),
    if_at_least(IMAGE_END, 3, 0),
    if_at_least(IMAGE_BEGIN, 0, 2),
    RETURN_ALLOW,
    RETURN_ALLOW,
    done(RETURN_TRAP | STRICT as u32),
];

const UNSHARE: usize = number("unshare");
const CLONE_THREAD: usize = 0x1_0000;
const SIGKILL: usize = 9;
