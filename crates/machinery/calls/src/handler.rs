//! The parts of the image that answer calls.

/// Defines an enum of names and the list of them all.
macro_rules! listed {
    ($(#[$meta:meta])* pub enum $name:ident { $($(#[$doc:meta])* $variant:ident,)* }) => {
        $(#[$meta])*
        pub enum $name { $($(#[$doc])* $variant,)* }

        impl $name {
            /// All of them, in their order.
            pub(crate) const ALL: &'static [Self] = &[$(Self::$variant),*];
        }
    };
}

listed! {
    /// Which part of the image answers a trapped call. Each is an arm of the image's
    /// dispatch (`shim/src/trap.rs`), and each is named by some row.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    #[repr(u8)]
    pub enum Handler {
        /// `clock_gettime`.
        ClockGettime,
        /// `gettimeofday`.
        Gettimeofday,
        /// `nanosleep`.
        Nanosleep,
        /// `clock_nanosleep`.
        ClockNanosleep,
        /// `ppoll`.
        Ppoll,
        /// `pselect6`.
        Pselect6,
        /// `epoll_pwait`.
        EpollPwait,
        /// `epoll_pwait2`.
        EpollPwait2,
        /// `futex`.
        Futex,
        /// `futex_waitv`.
        FutexWaitv,
        /// `futex_wait`, which came with Linux 6.7.
        FutexWait,
        /// `rt_sigtimedwait`.
        RtSigtimedwait,
        /// `semtimedop`.
        Semtimedop,
        /// `semop`, which is `semtimedop` without a timeout.
        Semop,
        /// `mq_timedsend` and `mq_timedreceive`.
        MessageQueue,
        /// `read`.
        Read,
        /// `readv`.
        Readv,
        /// `recvfrom`.
        Recvfrom,
        /// `recvmsg`.
        Recvmsg,
        /// `recvmmsg`.
        Recvmmsg,
        /// `accept` and `accept4`.
        Accept,
        /// `connect`.
        Connect,
        /// `write`.
        Write,
        /// `writev`.
        Writev,
        /// `sendto`.
        Sendto,
        /// `sendmsg`.
        Sendmsg,
        /// `sendmmsg`.
        Sendmmsg,
        /// `io_getevents`.
        IoGetevents,
        /// `io_pgetevents`.
        IoPgetevents,
        /// `ioctl` of a hardware clock, or for the stamp of a socket's last packet.
        Ioctl,
        /// `shmctl`, `semctl` and `msgctl` that tell when something was done.
        IpcStatus,
        /// `sysinfo`.
        Sysinfo,
        /// `times`.
        Times,
        /// `getrusage`.
        Getrusage,
        /// `wait4`.
        Wait4,
        /// `waitid`.
        Waitid,
        /// `utimensat`.
        Utimensat,
        /// `stat`, `lstat` and `fstat`.
        Stat,
        /// `newfstatat`.
        Newfstatat,
        /// `statx`.
        Statx,
        /// `setsockopt` of an option that is about time.
        Setsockopt,
        /// `rt_sigprocmask`.
        RtSigprocmask,
        /// `rt_sigaction`.
        RtSigaction,
        /// `rt_sigsuspend`.
        RtSigsuspend,
        /// `rt_sigpending`.
        RtSigpending,
        /// `rt_sigreturn` from a frame that the program has made or changed.
        RtSigreturn,
        /// `ptrace` that reads or sets a tracee's signal mask.
        Ptrace,
        /// `munmap`, `mprotect`, `pkey_mprotect` and `madvise` of a range that may overlap
        /// what the image keeps (clock page and image).
        OnRange,
        /// `mmap` at a fixed address of such a range.
        Mmap,
        /// `mremap` from or to such a range.
        Mremap,
        /// `remap_file_pages` of such a range.
        RemapFilePages,
        /// `arch_prctl` that maps another vDSO.
        ArchPrctl,
        /// `prctl` about seccomp, or about the time-stamp counter where that is emulated.
        Prctl,
        /// `seccomp` that sets a mode.
        Seccomp,
        /// `timerfd_settime` of a timer that is to tell when its clock is set.
        TimerfdSettime,
        /// `timer_settime` of a timer of the kernel's, which counts processor time.
        TimerSettime,
        /// `timer_gettime` of the same.
        TimerGettime,
        /// `setitimer` of processor time.
        Setitimer,
        /// `getitimer` of the same.
        Getitimer,
        /// `time`.
        Time,
        /// `poll`.
        Poll,
        /// `select`.
        Select,
        /// `epoll_wait`.
        EpollWait,
        /// `utime`.
        Utime,
        /// `utimes`.
        Utimes,
        /// `futimesat`.
        Futimesat,
    }
}

impl Handler {
    /// Returns true if no signal handler may run before the call ends: calls that only read a
    /// clock, and calls that have mapped memory, which a `siglongjmp` would leak.
    pub const fn is_uninterrupted(self) -> bool {
        matches!(
            self,
            Self::ClockGettime | Self::Gettimeofday | Self::Time | Self::Prctl | Self::Seccomp
        )
    }

    /// Whether its wait lets signals in by a mask of its own, so that none need be handled
    /// before it.
    pub const fn waits_under_a_mask(self) -> bool {
        matches!(self, Self::EpollWait | Self::EpollPwait | Self::EpollPwait2)
    }

    /// Bytes of the stack that the image takes at most to answer the call: what its
    /// functions have, one within the other, and what it writes below the last. A test of
    /// `guest` measures it on each processor; it is the more of both.
    pub const fn stack_bytes(self) -> usize {
        match self {
            Self::Writev | Self::Sendmmsg => 1520,
            Self::Select | Self::Pselect6 | Self::Sendmsg => 1376,
            Self::Read | Self::Readv | Self::Write => 992,
            Self::ClockGettime
            | Self::Gettimeofday
            | Self::Time
            | Self::Times
            | Self::Getrusage
            | Self::Wait4
            | Self::Waitid
            | Self::Setitimer
            | Self::Getitimer
            | Self::TimerSettime
            | Self::TimerGettime
            | Self::TimerfdSettime
            | Self::RtSigprocmask
            | Self::RtSigaction
            | Self::RtSigreturn
            | Self::Ptrace
            | Self::OnRange
            | Self::Mmap
            | Self::Mremap
            | Self::RemapFilePages
            | Self::Prctl
            | Self::Seccomp
            | Self::Setsockopt
            | Self::Ioctl
            | Self::Sysinfo => 432,
            _ => 848,
        }
    }

    /// Returns true if the call traps because it could affect SIGSYS or the image. A released
    /// program keeps the filter, so it still needs these traps.
    pub const fn guards_image(self) -> bool {
        matches!(
            self,
            Self::RtSigprocmask
                | Self::RtSigaction
                | Self::RtSigsuspend
                | Self::RtSigpending
                | Self::RtSigreturn
                | Self::Ptrace
                | Self::OnRange
                | Self::Mmap
                | Self::Mremap
                | Self::RemapFilePages
                | Self::RtSigtimedwait
                | Self::Ppoll
                | Self::Pselect6
                | Self::EpollPwait
                | Self::EpollPwait2
                | Self::IoPgetevents
                | Self::Prctl
                | Self::Seccomp
        )
    }
}
