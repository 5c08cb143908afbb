//! Older calls that newer ones supersede. This architecture does not have the older calls, so no
//! call number leads to these functions.

use crate::sys::errno;

pub(crate) fn none(_: [usize; 6]) -> isize {
    errno::ENOSYS
}

pub(crate) use none as futimesat;
pub(crate) use none as poll;
pub(crate) use none as select;
pub(crate) use none as time;
pub(crate) use none as utime;
pub(crate) use none as utimes;

pub(crate) fn epoll_wait(args: [usize; 6], _: u64) -> isize {
    none(args)
}
