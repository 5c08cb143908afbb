//! Seccomp filters that a program installs for itself.
//!
//! The image makes calls that such a filter does not expect: the return from a signal handler, a
//! wait in several parts, a check whether memory is readable. The image therefore installs the
//! filter in a rewritten form (`rewrite.rs`), which lets calls of the image pass. Its verdicts on
//! all other calls are unchanged.
//!
//! Only the kernel decides whether a filter is valid. To get its decision, the image asks it to
//! install the filter with a listener. A process in a session already has a listener, so the kernel
//! refuses a second one, but only after all other checks: privileges, flags, the memory, each
//! instruction.
//!
//! The image stores no state. To learn whether a thread has a rewritten filter, it closes a
//! descriptor that cannot exist ([`has_filter`]).

mod rewrite;
mod strict;

use timeloom_abi::calls::ImageCall;
use timeloom_abi::calls::verdict::PROBE;

use crate::arch;
use crate::bpf::{Instruction, Program, SET_MODE_FILTER, SPEC_ALLOW, TSYNC};
use crate::sys::{self, errno, nr, readable, syscall};
pub(crate) use strict::end_strictly;

/// Handles `seccomp(operation, flags, pointer)`.
pub(crate) fn seccomp(args: [usize; 6]) -> isize {
    let [operation, flags, pointer, ..] = args;
    match operation as u32 {
        SET_MODE_STRICT if flags as u32 == 0 && pointer == 0 => strict::enter(),
        MODE_FILTER => install(flags as u32 as usize, pointer),
        // SAFETY: the program's own call, on its own behalf.
        _ => unsafe { syscall(nr::SECCOMP, args) },
    }
}

/// Handles `prctl(option, value, …)` that concerns seccomp or the time-stamp counter.
pub(crate) fn prctl(args: [usize; 6]) -> isize {
    let [option, value, pointer, ..] = args;
    match option as u32 {
        PR_SET_SECCOMP if value == PRCTL_STRICT => strict::enter(),
        PR_SET_SECCOMP if value == PRCTL_FILTER => install(0, pointer),
        PR_GET_SECCOMP if !has_filter() => 0,
        // SAFETY: the program's own call, on its own behalf.
        PR_SET_SECCOMP | PR_GET_SECCOMP => unsafe { syscall(nr::PRCTL, args) },
        _ => arch::prctl(args),
    }
}

/// Returns true if the calling thread has a filter of the program's own that the image has
/// rewritten.
pub(crate) fn has_filter() -> bool {
    // SAFETY: no such descriptor can exist, since the number is negative.
    unsafe { syscall(nr::CLOSE, [PROBE as usize, 0, 0, 0, 0, 0]) == errno::ECANCELED }
}

/// Sets `no_new_privs`: from now on the process cannot gain privileges by an exec.
pub(crate) fn give_up_new_privileges() {
    // SAFETY: no pointers.
    unsafe { syscall(nr::PRCTL, [PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0, 0]) };
}

/// Installs the program's filter, the `struct sock_fprog` at `pointer`. Returns the result for the
/// program.
fn install(flags: usize, pointer: usize) -> isize {
    if flags & !ALL_FLAGS != 0 {
        // The flag is one of a future kernel.
        return errno::EINVAL;
    }
    if flags & !HANDLED_FLAGS != 0 {
        // The kernel allows one listener, which the supervisor has, so it refuses a second one.
        // SAFETY: the kernel checks the pointer.
        return unsafe { syscall(nr::SECCOMP, [SET_MODE_FILTER, flags, pointer, 0, 0, 0]) };
    }
    // SAFETY: as above.
    match unsafe {
        syscall(
            nr::SECCOMP,
            [SET_MODE_FILTER, NEW_LISTENER, pointer, 0, 0, 0],
        )
    } {
        // The filter is valid, or (if no descriptor is left) has passed the kernel's checks up to
        // that point.
        errno::EBUSY | errno::EMFILE | errno::ENFILE => {}
        // Without a supervisor there is no listener, so the kernel has installed the filter. It is
        // installed again below, in its rewritten form.
        listener if listener >= 0 => {
            // SAFETY: the descriptor was just created.
            unsafe { syscall(nr::CLOSE, [listener as usize, 0, 0, 0, 0, 0]) };
        }
        refused => return refused,
    }
    if !readable(pointer, size_of::<Program>()) {
        return errno::EFAULT;
    }
    // SAFETY: the kernel has just read the structure.
    let given = unsafe { (pointer as *const Program).read_unaligned() };
    let Some(room) = Room::new() else {
        return errno::ENOMEM;
    };
    sys::ask(ImageCall::Confines);
    let result = match room.copy(&given) {
        Err(refused) => refused,
        // SAFETY: each half of the buffer has space for a filter of maximum length.
        Ok(()) => match unsafe {
            rewrite::rewrite(
                room.original(),
                given.length.into(),
                room.other(),
                has_filter(),
            )
        } {
            Err(refused) => refused,
            Ok(length) => Program {
                length,
                instructions: room.other(),
            }
            .install(flags),
        },
    };
    room.give_back();
    result
}

/// Buffer for the program's filter and for the rewritten one.
struct Room(usize);

impl Room {
    fn new() -> Option<Self> {
        let args = [
            0,
            2 * FILTER_BYTES,
            READ | WRITE,
            PRIVATE | ANONYMOUS,
            usize::MAX,
            0,
        ];
        // SAFETY: a new mapping at a free address.
        let address = unsafe { syscall(nr::MMAP, args) };
        (address > 0).then_some(Self(address as usize))
    }

    fn original(&self) -> *mut Instruction {
        self.0 as *mut Instruction
    }

    fn other(&self) -> *mut Instruction {
        (self.0 + FILTER_BYTES) as *mut Instruction
    }

    /// Copies the program's filter to the buffer, since other threads may change the original
    /// meanwhile.
    fn copy(&self, given: &Program) -> Result<(), isize> {
        let (length, from) = (usize::from(given.length), given.instructions as usize);
        if length == 0 || length > MOST_INSTRUCTIONS {
            return Err(errno::EINVAL);
        }
        let bytes = length * size_of::<Instruction>();
        let mut at = 0;
        while at < bytes {
            if !readable(from.wrapping_add(at), (bytes - at).min(PROBED_BYTES)) {
                return Err(errno::EFAULT);
            }
            at += PROBED_BYTES;
        }
        // SAFETY: the memory is readable, as just checked, and the buffer fits the maximum length.
        unsafe { core::ptr::copy_nonoverlapping(from as *const u8, self.0 as *mut u8, bytes) };
        Ok(())
    }

    fn give_back(self) {
        // SAFETY: the memory was mapped by this type, and is no longer used.
        unsafe { syscall(nr::MUNMAP, [self.0, 2 * FILTER_BYTES, 0, 0, 0, 0]) };
    }
}

/// BPF_MAXINSNS: maximum length of a filter.
const MOST_INSTRUCTIONS: usize = 4096;
const FILTER_BYTES: usize = MOST_INSTRUCTIONS * size_of::<Instruction>();
/// Distance between readability checks, in bytes. If both ends of each piece of this length are
/// checked, no page is skipped.
const PROBED_BYTES: usize = 4096;

const MODE_FILTER: u32 = SET_MODE_FILTER as u32;
const SET_MODE_STRICT: u32 = 0;
/// Flags of SECCOMP_SET_MODE_FILTER: LOG, NEW_LISTENER, TSYNC_ESRCH, WAIT_KILLABLE_RECV.
const LOG: usize = 1 << 1;
const NEW_LISTENER: usize = 1 << 3;
const TSYNC_ESRCH: usize = 1 << 4;
const WAIT_KILLABLE: usize = 1 << 5;
const HANDLED_FLAGS: usize = TSYNC | LOG | SPEC_ALLOW | TSYNC_ESRCH;
const ALL_FLAGS: usize = HANDLED_FLAGS | NEW_LISTENER | WAIT_KILLABLE;
const PR_GET_SECCOMP: u32 = 21;
const PR_SET_SECCOMP: u32 = 22;
const PRCTL_STRICT: usize = 1;
const PRCTL_FILTER: usize = 2;
const PR_SET_NO_NEW_PRIVS: usize = 38;
const READ: usize = 1;
const WRITE: usize = 2;
const PRIVATE: usize = 2;
const ANONYMOUS: usize = 32;
