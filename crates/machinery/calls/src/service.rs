//! Services of the supervisor.

/// Part of the supervisor that handles a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Service {
    /// Follows an exec and prepares the new program.
    Exec,
    /// Prepares a program that was executed under a debugger, at the debugger's first request that
    /// resumes it.
    Trace,
    /// Creates a timerfd.
    TimerfdCreate,
    /// Sets a timerfd.
    TimerfdSettime,
    /// Returns the remaining time of a timerfd.
    TimerfdGettime,
    /// Creates a POSIX timer.
    TimerCreate,
    /// Sets a POSIX timer.
    TimerSettime,
    /// Returns the remaining time of a POSIX timer.
    TimerGettime,
    /// Returns the overrun count of a POSIX timer.
    TimerGetoverrun,
    /// Deletes a POSIX timer.
    TimerDelete,
    /// Sets the process's interval timer.
    Setitimer,
    /// Returns the remaining time of the process's interval timer.
    Getitimer,
    /// Sets the process's interval timer in whole seconds.
    Alarm,
    /// Sets a clock of the guest's host.
    ClockSettime,
    /// Sets the host's CLOCK_REALTIME.
    Settimeofday,
    /// Adjusts the host's CLOCK_REALTIME.
    Adjtimex,
    /// Adjusts a clock of the host.
    ClockAdjtime,
    /// Refuses `io_uring`, whose waits cannot be trapped, or counts it as a leak.
    IoUring,
    /// Counts and reports a call that is executed in real time.
    RealTime,
    /// Counts and reports an `ioctl` that is executed in real time ([`crate::IOCTLS`]).
    Device,
    /// Counts and reports a socket option that returns real time ([`crate::SOCKET_OPTIONS`]).
    SocketOption,
    /// Counts and reports a limit of processor time (`setrlimit`).
    CpuLimit,
    /// Counts and reports a limit of another process's processor time (`prlimit`).
    CpuLimitOf,
    /// Counts and reports budgets and deadlines of the scheduler.
    Schedule,
    /// Refuses a time namespace other than the caller's own, or counts it as a leak.
    TimeNamespace,
    /// Refuses alternate stacks that are too small for a signal under the clock.
    SignalStack,
    /// Answers a question of the image ([`crate::ImageCall`]).
    Image,
}

impl Service {
    /// Returns true if the service is still needed after its program was released: programs started
    /// by an exec need the image, and `sigaltstack` has no effect in a handler, since the return
    /// from the handler restores the previous stack.
    pub const fn outlasts_session(self) -> bool {
        matches!(self, Self::Exec | Self::SignalStack | Self::Image)
    }
}
