//! System calls made from inside the image, which the filter lets pass.

use timeloom_abi::calls::{IMAGE_CALL, ImageCall};

pub(crate) use crate::arch::{syscall, syscall_as_program};
pub(crate) use crate::nr;

/// Asks the supervisor. Returns its answer: a value, or a negated errno; `ENOSYS` if there is no
/// supervisor.
#[inline(always)]
pub(crate) fn ask(question: ImageCall<usize>) -> isize {
    // SAFETY: the filter passes this number to the supervisor, which checks the pointers.
    unsafe { syscall(IMAGE_CALL, question.encode()) }
}

/// Returns true if the program may read `length` bytes (8 or more) at `address`.
///
/// A handler that dereferences a bad pointer of the program would raise SIGSEGV, where a system
/// call returns EFAULT. The image therefore lets the kernel check the memory: `rt_sigprocmask` with
/// an invalid `how` reads the set first (EFAULT) and then refuses (EINVAL), without changing
/// anything.
pub(crate) fn readable(address: usize, length: usize) -> bool {
    let probe = |at: usize| {
        // SAFETY: the call changes nothing, for any address.
        unsafe { syscall(nr::RT_SIGPROCMASK, [usize::MAX, at, 0, 8, 0, 0]) == errno::EINVAL }
    };
    probe(address) && (length <= 8 || probe(address.wrapping_add(length - 8)))
}

/// Negated error numbers, as system calls return them.
pub(crate) mod errno {
    pub(crate) const EPERM: isize = -1;
    pub(crate) const EINTR: isize = -4;
    pub(crate) const EAGAIN: isize = -11;
    pub(crate) const ENOMEM: isize = -12;
    pub(crate) const EACCES: isize = -13;
    pub(crate) const EFAULT: isize = -14;
    pub(crate) const EEXIST: isize = -17;
    pub(crate) const EINVAL: isize = -22;
    pub(crate) const EBUSY: isize = -16;
    pub(crate) const ENFILE: isize = -23;
    pub(crate) const EMFILE: isize = -24;
    pub(crate) const ENOTTY: isize = -25;
    pub(crate) const ENOSYS: isize = -38;
    pub(crate) const ENOPROTOOPT: isize = -92;
    pub(crate) const EOPNOTSUPP: isize = -95;
    pub(crate) const ETIMEDOUT: isize = -110;
    pub(crate) const EALREADY: isize = -114;
    pub(crate) const EINPROGRESS: isize = -115;
    pub(crate) const ECANCELED: isize = -125;
}
