//! Parts of the image that handle calls.

/// Defines an enum of names and the list of them all.
macro_rules! listed {
    ($(#[$meta:meta])* pub enum $name:ident { $($(#[$doc:meta])* $variant:ident,)* }) => {
        $(#[$meta])*
        pub enum $name { $($(#[$doc])* $variant,)* }

        impl $name {
            /// All values, in order.
            pub(crate) const ALL: &'static [Self] = &[$(Self::$variant),*];
        }
    };
}

listed! {
    /// Part of the image that handles a trapped call. Each is an arm of the image's dispatch
    /// (`shim/src/trap.rs`), and is named by at least one row.
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
        /// `ioctl` of a hardware clock, or for the timestamp of a socket's last packet.
        Ioctl,
        /// `shmctl`, `semctl` and `msgctl` that return the time of an operation.
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
        /// `setsockopt` of a time-related option.
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
        /// `prctl` about seccomp, or about the time-stamp counter if that is emulated.
        Prctl,
        /// `seccomp` that sets a mode.
        Seccomp,
        /// `timerfd_settime` of a timer that reports changes of its clock.
        TimerfdSettime,
        /// `timer_settime` of a kernel timer, which counts processor time.
        TimerSettime,
        /// `timer_gettime` of a kernel timer.
        TimerGettime,
        /// `setitimer` of processor time.
        Setitimer,
        /// `getitimer` of processor time.
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

    /// Returns true if the call's wait admits signals by its own mask, so that none has to be
    /// handled before it.
    pub const fn waits_under_a_mask(self) -> bool {
        matches!(self, Self::EpollWait | Self::EpollPwait | Self::EpollPwait2)
    }

    /// Maximum stack use of the image for the call, in bytes: the frames of its nested functions,
    /// and the memory written below the last. A test of `guest` measures it on each processor; the
    /// value is the larger of both.
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
