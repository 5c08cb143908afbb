//! Parts of the image (Timeloom's code inside each guest process) that handle calls.

/// Defines an enum whose variants are names, and `ALL`, the list of its variants.
macro_rules! listed {
    ($(#[$meta:meta])* pub enum $name:ident { $($(#[$doc:meta])* $variant:ident,)* }) => {
        $(#[$meta])*
        pub enum $name { $($(#[$doc])* $variant,)* }

        impl $name {
            /// All variants, in the order of their definition.
            pub(crate) const ALL: &'static [Self] = &[$(Self::$variant),*];
        }
    };
}

listed! {
    /// Part of the image that handles a trapped call. The image's dispatch (`shim/src/trap.rs`) has
    /// one match arm for each variant, and at least one row of the table names each variant.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    #[repr(u8)]
    pub enum Handler {
        /// Handles `clock_gettime`.
        ClockGettime,
        /// Handles `gettimeofday`.
        Gettimeofday,
        /// Handles `nanosleep`.
        Nanosleep,
        /// Handles `clock_nanosleep`.
        ClockNanosleep,
        /// Handles `ppoll`.
        Ppoll,
        /// Handles `pselect6`.
        Pselect6,
        /// Handles `epoll_pwait`.
        EpollPwait,
        /// Handles `epoll_pwait2`.
        EpollPwait2,
        /// Handles `futex`.
        Futex,
        /// Handles `futex_waitv`.
        FutexWaitv,
        /// Handles `futex_wait`, which came with Linux 6.7.
        FutexWait,
        /// Handles `rt_sigtimedwait`.
        RtSigtimedwait,
        /// Handles `semtimedop`.
        Semtimedop,
        /// Handles `semop`, which is `semtimedop` without a timeout.
        Semop,
        /// Handles `mq_timedsend` and `mq_timedreceive`.
        MessageQueue,
        /// Handles `read`.
        Read,
        /// Handles `readv`.
        Readv,
        /// Handles `recvfrom`.
        Recvfrom,
        /// Handles `recvmsg`.
        Recvmsg,
        /// Handles `recvmmsg`.
        Recvmmsg,
        /// Handles `accept` and `accept4`.
        Accept,
        /// Handles `connect`.
        Connect,
        /// Handles `write`.
        Write,
        /// Handles `writev`.
        Writev,
        /// Handles `sendto`.
        Sendto,
        /// Handles `sendmsg`.
        Sendmsg,
        /// Handles `sendmmsg`.
        Sendmmsg,
        /// Handles `io_getevents`.
        IoGetevents,
        /// Handles `io_pgetevents`.
        IoPgetevents,
        /// Handles `ioctl` that reads a hardware clock, or the timestamp of a socket's last packet,
        /// or that is for a network card of the model.
        Ioctl,
        /// Handles `open`, `openat` and `openat2` on a host with a network card of the model, whose
        /// clock is a device.
        Open,
        /// Handles `shmctl`, `semctl` and `msgctl` that return the time of an operation.
        IpcStatus,
        /// Handles `sysinfo`.
        Sysinfo,
        /// Handles `times`.
        Times,
        /// Handles `getrusage`.
        Getrusage,
        /// Handles `wait4`.
        Wait4,
        /// Handles `waitid`.
        Waitid,
        /// Handles `utimensat`.
        Utimensat,
        /// Handles `stat`, `lstat` and `fstat`.
        Stat,
        /// Handles `newfstatat`.
        Newfstatat,
        /// Handles `statx`.
        Statx,
        /// Handles `setsockopt` of a time-related option.
        Setsockopt,
        /// Handles `rt_sigprocmask`.
        RtSigprocmask,
        /// Handles `rt_sigaction`.
        RtSigaction,
        /// Handles `rt_sigsuspend`.
        RtSigsuspend,
        /// Handles `rt_sigpending`.
        RtSigpending,
        /// Handles `rt_sigreturn` from a frame that the program has made or changed.
        RtSigreturn,
        /// Handles `ptrace` that reads or sets a tracee's signal mask.
        Ptrace,
        /// Handles `munmap`, `mprotect`, `pkey_mprotect` and `madvise` of a range that may overlap
        /// the clock page or the image, which the program must not remove.
        OnRange,
        /// Handles `mmap` at a fixed address whose range may overlap the clock page or the image.
        Mmap,
        /// Handles `mremap` from or to a range that may overlap the clock page or the image.
        Mremap,
        /// Handles `remap_file_pages` of a range that may overlap the clock page or the image.
        RemapFilePages,
        /// Handles `arch_prctl` that maps another vDSO.
        ArchPrctl,
        /// Handles `prctl` that concerns seccomp, or the time-stamp counter if the session emulates
        /// it.
        Prctl,
        /// Handles `seccomp` that sets a mode or installs a filter.
        Seccomp,
        /// Handles `timerfd_settime` of a timer that reports changes of its clock.
        TimerfdSettime,
        /// Handles `timer_settime` of a POSIX timer that the kernel keeps because it counts
        /// processor time.
        TimerSettime,
        /// Handles `timer_gettime` of a POSIX timer that the kernel keeps.
        TimerGettime,
        /// Handles `setitimer` of processor time.
        Setitimer,
        /// Handles `getitimer` of processor time.
        Getitimer,
        /// Handles `time`.
        Time,
        /// Handles `poll`.
        Poll,
        /// Handles `select`.
        Select,
        /// Handles `epoll_wait`.
        EpollWait,
        /// Handles `utime`.
        Utime,
        /// Handles `utimes`.
        Utimes,
        /// Handles `futimesat`.
        Futimesat,
    }
}

impl Handler {
    /// Returns true if no signal handler of the program may run before the call ends. This holds
    /// for calls that only read a clock, and for calls that have mapped memory, which a
    /// `siglongjmp` out of the handler would leak.
    pub const fn is_uninterrupted(self) -> bool {
        matches!(
            self,
            Self::ClockGettime | Self::Gettimeofday | Self::Time | Self::Prctl | Self::Seccomp
        )
    }

    /// Returns true if the call waits in the kernel under the signal mask that it was given. The
    /// image then need not deliver pending signals before the wait.
    pub const fn waits_under_a_mask(self) -> bool {
        matches!(self, Self::EpollWait | Self::EpollPwait | Self::EpollPwait2)
    }

    /// Returns the maximum stack use of the image for the call, in bytes: the frames of its nested
    /// functions, and the memory written below the innermost frame. A test of `guest` measures the
    /// value on each architecture; this is the larger of the two.
    pub const fn stack_bytes(self) -> usize {
        match self {
            Self::Writev | Self::Sendmmsg => 1584,
            Self::Select | Self::Pselect6 | Self::Sendmsg => 1376,
            Self::Read | Self::Readv | Self::Write => 1040,
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
            | Self::Sysinfo => 448,
            _ => 896,
        }
    }

    /// Returns true if the call traps because it could affect SIGSYS or the image's memory. A
    /// program that was released from its session keeps its filters, so it still needs these traps.
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
