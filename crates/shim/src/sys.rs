//! System calls made from inside the image, which the filter lets pass.

use core::arch::asm;

/// A raw system call. Returns what the kernel returned: a value, or a negated
/// errno in -4095…-1.
///
/// # Safety
/// As the call itself: pointers must be valid for what the kernel does.
#[inline(always)]
pub(crate) unsafe fn syscall(nr: usize, args: [usize; 6]) -> isize {
    let result: isize;
    // SAFETY: the caller vouches for the arguments; rcx and r11 are declared.
    unsafe {
        asm!(
            "syscall",
            inlateout("rax") nr as isize => result,
            in("rdi") args[0],
            in("rsi") args[1],
            in("rdx") args[2],
            in("r10") args[3],
            in("r8") args[4],
            in("r9") args[5],
            lateout("rcx") _,
            lateout("r11") _,
            options(nostack),
        );
    }
    result
}

/// Whether the program may read `length` bytes (8 or more) at `address`.
///
/// A handler that dereferences a bad pointer of the program would raise SIGSEGV
/// where the kernel answers EFAULT. So the kernel is asked: `rt_sigprocmask`
/// with an impossible `how` reads the set first (EFAULT) and then refuses
/// (EINVAL), without changing anything.
pub(crate) fn readable(address: usize, length: usize) -> bool {
    let probe = |at: usize| {
        // SAFETY: the call changes nothing, whatever the address is.
        unsafe { syscall(nr::RT_SIGPROCMASK, [usize::MAX, at, 0, 8, 0, 0]) == errno::EINVAL }
    };
    probe(address) && (length <= 8 || probe(address.wrapping_add(length - 8)))
}

/// Numbers of the calls that the image handles or makes (x86-64).
pub(crate) mod nr {
    pub(crate) const READ: usize = 0;
    pub(crate) const WRITE: usize = 1;
    pub(crate) const CLOSE: usize = 3;
    pub(crate) const POLL: usize = 7;
    pub(crate) const RT_SIGACTION: usize = 13;
    pub(crate) const RT_SIGPROCMASK: usize = 14;
    pub(crate) const READV: usize = 19;
    pub(crate) const WRITEV: usize = 20;
    pub(crate) const SELECT: usize = 23;
    pub(crate) const NANOSLEEP: usize = 35;
    pub(crate) const GETITIMER: usize = 36;
    pub(crate) const SETITIMER: usize = 38;
    pub(crate) const CONNECT: usize = 42;
    pub(crate) const ACCEPT: usize = 43;
    pub(crate) const SENDTO: usize = 44;
    pub(crate) const RECVFROM: usize = 45;
    pub(crate) const SENDMSG: usize = 46;
    pub(crate) const RECVMSG: usize = 47;
    pub(crate) const WAIT4: usize = 61;
    pub(crate) const SETSOCKOPT: usize = 54;
    pub(crate) const GETSOCKOPT: usize = 55;
    pub(crate) const FCNTL: usize = 72;
    pub(crate) const GETTIMEOFDAY: usize = 96;
    pub(crate) const GETRUSAGE: usize = 98;
    pub(crate) const UTIME: usize = 132;
    pub(crate) const UTIMES: usize = 235;
    pub(crate) const WAITID: usize = 247;
    pub(crate) const FUTIMESAT: usize = 261;
    pub(crate) const UTIMENSAT: usize = 280;
    pub(crate) const RT_SIGPENDING: usize = 127;
    pub(crate) const RT_SIGSUSPEND: usize = 130;
    pub(crate) const PRCTL: usize = 157;
    pub(crate) const TIME: usize = 201;
    pub(crate) const FUTEX: usize = 202;
    pub(crate) const CLOCK_GETTIME: usize = 228;
    pub(crate) const CLOCK_GETRES: usize = 229;
    pub(crate) const CLOCK_NANOSLEEP: usize = 230;
    pub(crate) const EPOLL_WAIT: usize = 232;
    pub(crate) const PSELECT6: usize = 270;
    pub(crate) const PPOLL: usize = 271;
    pub(crate) const EPOLL_PWAIT: usize = 281;
    pub(crate) const ACCEPT4: usize = 288;
    pub(crate) const SENDMMSG: usize = 307;
    pub(crate) const GETCPU: usize = 309;
    pub(crate) const SECCOMP: usize = 317;
    pub(crate) const GETRANDOM: usize = 318;
    pub(crate) const EPOLL_PWAIT2: usize = 441;
    pub(crate) const MMAP: usize = 9;
    pub(crate) const MUNMAP: usize = 11;
    pub(crate) const SEMOP: usize = 65;
    pub(crate) const SYSINFO: usize = 99;
    pub(crate) const TIMES: usize = 100;
    pub(crate) const RT_SIGTIMEDWAIT: usize = 128;
    pub(crate) const SEMTIMEDOP: usize = 220;
    pub(crate) const MQ_TIMEDSEND: usize = 242;
    pub(crate) const MQ_TIMEDRECEIVE: usize = 243;
    pub(crate) const RECVMMSG: usize = 299;
    pub(crate) const FUTEX_WAITV: usize = 449;
}

/// Negated error numbers, as system calls return them.
pub(crate) mod errno {
    pub(crate) const EPERM: isize = -1;
    pub(crate) const EINTR: isize = -4;
    pub(crate) const EAGAIN: isize = -11;
    pub(crate) const EACCES: isize = -13;
    pub(crate) const EFAULT: isize = -14;
    pub(crate) const EINVAL: isize = -22;
    pub(crate) const ENOSYS: isize = -38;
    pub(crate) const ENOPROTOOPT: isize = -92;
    pub(crate) const ETIMEDOUT: isize = -110;
    pub(crate) const EALREADY: isize = -114;
    pub(crate) const EINPROGRESS: isize = -115;
    pub(crate) const ECANCELED: isize = -125;
}
