//! Conditions on a call's arguments.

/// Condition for the treatment of a call; otherwise it passes. Arguments are counted from zero.
///
/// The supervisor compiles these into the seccomp filter (`guest/src/filter/`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum When {
    /// Always.
    Always,
    /// This pointer argument is not null.
    Given(u32),
    /// Either pointer argument is not null.
    EitherGiven(u32, u32),
    /// This `int` argument is above zero (a timeout in ms).
    Positive(u32),
    /// This `int` argument is not zero (a timeout in ms; negative: none).
    NotZero(u32),
    /// `int` `.0` is not zero or pointer `.1` is not null.
    NotZeroOrGiven(u32, u32),
    /// This pointer argument is null.
    Null(u32),
    /// A futex operation that waits, with a timeout.
    FutexWait,
    /// A socket option: a timeout or timestamps, handled in the image; or one of
    /// [`crate::SOCKET_OPTIONS`], by the row's treatment.
    SocketTime,
    /// An interval timer: of real time, by the row's treatment; of processor time, in the image.
    IntervalTimer,
    /// A timer: in the image first if it reports changes of its clock.
    MayCancel,
    /// A timer's clock that does not count processor time. (Timers on clocks that do are the
    /// kernel's.)
    NotOfProcessor,
    /// A timer of the session.
    OwnPosixTimer,
    /// A timer: of the session, by the row's treatment; of the kernel, in the image.
    PosixTimer,
    /// The low half of this argument is one of these values.
    OneOf(u32, &'static [u32]),
    /// An `ioctl`: of a hardware clock, or for a packet's timestamp, in the image; one of
    /// [`crate::IOCTLS`], by the row's treatment.
    DeviceTime,
    /// A signal's action that is set, or is that of a signal which the image intercepts.
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
    /// These flags name a time namespace.
    NewTime(u32),
    /// These flags name a time namespace, or are zero, which allows any.
    NewTimeOrAny(u32),
}

impl When {
    /// Returns true if a call that does not get its row's treatment traps instead of passing.
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
