//! Numbers of the calls that the image makes. Calls in the table are looked up by name; the others
//! have numbers per architecture.

use timeloom_abi::calls::number;

pub(crate) use crate::arch::own_nr::*;

pub(crate) const CLOCK_GETTIME: usize = number("clock_gettime");
pub(crate) const CLOCK_NANOSLEEP: usize = number("clock_nanosleep");
pub(crate) const CONNECT: usize = number("connect");
pub(crate) const EPOLL_PWAIT: usize = number("epoll_pwait");
pub(crate) const EPOLL_PWAIT2: usize = number("epoll_pwait2");
pub(crate) const FUTEX: usize = number("futex");
pub(crate) const FUTEX_WAIT: usize = number("futex_wait");
pub(crate) const FUTEX_WAITV: usize = number("futex_waitv");
pub(crate) const GETITIMER: usize = number("getitimer");
pub(crate) const GETRUSAGE: usize = number("getrusage");
pub(crate) const GETTIMEOFDAY: usize = number("gettimeofday");
pub(crate) const IOCTL: usize = number("ioctl");
pub(crate) const IO_GETEVENTS: usize = number("io_getevents");
pub(crate) const IO_PGETEVENTS: usize = number("io_pgetevents");
pub(crate) const MMAP: usize = number("mmap");
pub(crate) const MREMAP: usize = number("mremap");
pub(crate) const MUNMAP: usize = number("munmap");
pub(crate) const NEWFSTATAT: usize = number("newfstatat");
pub(crate) const PPOLL: usize = number("ppoll");
pub(crate) const PRCTL: usize = number("prctl");
pub(crate) const PSELECT6: usize = number("pselect6");
pub(crate) const PTRACE: usize = number("ptrace");
pub(crate) const READ: usize = number("read");
pub(crate) const READV: usize = number("readv");
pub(crate) const RECVFROM: usize = number("recvfrom");
pub(crate) const RECVMMSG: usize = number("recvmmsg");
pub(crate) const RECVMSG: usize = number("recvmsg");
pub(crate) const REMAP_FILE_PAGES: usize = number("remap_file_pages");
pub(crate) const RT_SIGACTION: usize = number("rt_sigaction");
pub(crate) const RT_SIGPENDING: usize = number("rt_sigpending");
pub(crate) const RT_SIGPROCMASK: usize = number("rt_sigprocmask");
pub(crate) const RT_SIGSUSPEND: usize = number("rt_sigsuspend");
pub(crate) const RT_SIGTIMEDWAIT: usize = number("rt_sigtimedwait");
pub(crate) const SECCOMP: usize = number("seccomp");
pub(crate) const SEMTIMEDOP: usize = number("semtimedop");
pub(crate) const SENDMMSG: usize = number("sendmmsg");
pub(crate) const SENDMSG: usize = number("sendmsg");
pub(crate) const SENDTO: usize = number("sendto");
pub(crate) const SETITIMER: usize = number("setitimer");
pub(crate) const SETSOCKOPT: usize = number("setsockopt");
pub(crate) const STATX: usize = number("statx");
pub(crate) const SYSINFO: usize = number("sysinfo");
pub(crate) const TIMERFD_SETTIME: usize = number("timerfd_settime");
pub(crate) const TIMER_GETTIME: usize = number("timer_gettime");
pub(crate) const TIMER_SETTIME: usize = number("timer_settime");
pub(crate) const TIMES: usize = number("times");
pub(crate) const UTIMENSAT: usize = number("utimensat");
pub(crate) const WAIT4: usize = number("wait4");
pub(crate) const WAITID: usize = number("waitid");
pub(crate) const WRITE: usize = number("write");
pub(crate) const WRITEV: usize = number("writev");
