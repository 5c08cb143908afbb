//! Conditions on a call's arguments.

/// Condition on a call's arguments for its treatment; otherwise the kernel executes the call.
/// Arguments are numbered from zero.
///
/// The supervisor compiles these conditions into the seccomp filter (`guest/src/filter/`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CallCondition {
    /// No condition: every such call is treated.
    Always,
    /// The pointer argument with this number is not null.
    Given(u32),
    /// At least one of these two pointer arguments is not null.
    EitherGiven(u32, u32),
    /// The `int` argument with this number is positive: a timeout in milliseconds.
    Positive(u32),
    /// The `int` argument with this number is not zero. It is a timeout in milliseconds; a negative
    /// value means no timeout.
    NotZero(u32),
    /// The `int` argument `.0` is not zero, or the pointer argument `.1` is not null.
    NotZeroOrGiven(u32, u32),
    /// The pointer argument with this number is null.
    Null(u32),
    /// The futex operation waits, and has a timeout.
    FutexWait,
    /// The socket option carries time. The image handles timeouts and timestamps; the row's
    /// treatment applies to [`crate::calls::SOCKET_OPTIONS`].
    SocketTime,
    /// The call is for an interval timer. The row's treatment applies to a timer of real time; the
    /// image handles timers of processor time.
    IntervalTimer,
    /// The call is for a timerfd. If the timer reports changes of its clock, the image handles the
    /// call first.
    MayCancel,
    /// The timer's clock does not count processor time. (The kernel keeps timers of processor
    /// time.)
    NotOfProcessor,
    /// The POSIX timer is kept by the session, not by the kernel.
    OwnPosixTimer,
    /// The call is for a POSIX timer. The row's treatment applies to a timer of the session; the
    /// image handles timers of the kernel.
    PosixTimer,
    /// The low 32 bits of the argument with this number are one of these values.
    OneOf(u32, &'static [u32]),
    /// The `ioctl` carries time. The image handles commands of a hardware clock or for a packet's
    /// timestamp, and on hosts with a network card of the model [`crate::calls::CARD_IOCTLS`]; the row's treatment applies to [`crate::calls::IOCTLS`].
    DeviceTime,
    /// The call sets a signal's action, or reads the action of a signal that the image intercepts.
    KeptAction,
    /// The `prctl` reads or sets access to the time-stamp counter, or the seccomp mode.
    SeccompOrTsc,
    /// The memory range may overlap the clock page or the image: it is near them, or at least 4 GiB
    /// long. It begins at argument `.0`, and argument `.1` is its length.
    Range(u32, u32),
    /// The `mmap` is at a fixed address, replaces what is mapped there, and may overlap the clock
    /// page or the image.
    FixedRange,
    /// The `mremap` is from or to a range that may overlap the clock page or the image.
    MovedRange,
    /// The `madvise` is for a range that may overlap the clock page or the image, with one of these
    /// kinds of advice.
    AdvisedRange(&'static [u32]),
    /// The flags in the argument with this number contain CLONE_NEWTIME.
    NewTime(u32),
    /// The flags in the argument with this number contain CLONE_NEWTIME, or are zero, which admits
    /// any namespace.
    NewTimeOrAny(u32),
}

impl CallCondition {
    /// Returns true if the image handles those calls to which the row's treatment does not apply.
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
