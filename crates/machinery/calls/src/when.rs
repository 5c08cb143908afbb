//! When a call is treated, by its arguments.

/// When a call gets its treatment; otherwise it passes. Arguments are counted from zero.
///
/// The supervisor compiles these into the seccomp filter (`guest/src/filter/`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum When {
    /// Always.
    Always,
    /// When this pointer argument is given.
    Given(u32),
    /// When either pointer argument is given.
    EitherGiven(u32, u32),
    /// When this `int` argument is above zero (a timeout in ms).
    Positive(u32),
    /// When this `int` argument is not zero (a timeout in ms; negative: none).
    NotZero(u32),
    /// When `int` `.0` is not zero or pointer `.1` is given.
    NotZeroOrGiven(u32, u32),
    /// When this pointer argument is null.
    Null(u32),
    /// A futex operation that waits, with a timeout.
    FutexWait,
    /// A socket option: a timeout or stamps in the image; one of
    /// [`crate::SOCKET_OPTIONS`] as the treatment says.
    SocketTime,
    /// An interval timer: of real time as the treatment says, of processor time in the
    /// image.
    IntervalTimer,
    /// A timer: one that is to tell when its clock is set, in the image first.
    MayCancel,
    /// A timer's clock that does not count processor time. (Timers on one that does are
    /// the kernel's.)
    NotOfProcessor,
    /// A timer that is the session's.
    OwnPosixTimer,
    /// A timer: the session's as the treatment says, the kernel's in the image.
    PosixTimer,
    /// When the low half of this argument is one of these.
    OneOf(u32, &'static [u32]),
    /// An `ioctl`: of a hardware clock, or for a packet's stamp, in the image; one of
    /// [`crate::IOCTLS`] as the treatment says.
    DeviceTime,
    /// A signal's action that is set, or that of a signal which the image keeps.
    KeptAction,
    /// `prctl` that reads or sets access to the time-stamp counter, or the seccomp mode.
    SeccompOrTsc,
    /// Range that begins at argument `.0`, with the length in argument `.1`, if it may overlap the
    /// kept range. (Near it, or 4 GiB long and longer.)
    Range(u32, u32),
    /// `mmap` of such a range, which replaces what is there.
    FixedRange,
    /// `mremap` from or to such a range.
    MovedRange,
    /// `madvise` of such a range, with one of these kinds of advice.
    AdvisedRange(&'static [u32]),
    /// When these flags name a time namespace.
    NewTime(u32),
    /// When these flags name a time namespace, or are zero, which names any.
    NewTimeOrAny(u32),
}

impl When {
    /// Whether a call that is not treated as its row says traps instead of passing.
    pub const fn traps_otherwise(self) -> bool {
        matches!(
            self,
            Self::IntervalTimer
                | Self::MayCancel
                | Self::PosixTimer
                | Self::DeviceTime
                | Self::SocketTime
        )
    }
}
