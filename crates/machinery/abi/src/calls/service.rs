//! Services of the supervisor, named by the rows of the table.

/// Part of the supervisor that handles a call of a guest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SupervisorService {
    /// Follows an exec and prepares the new program before its first instruction.
    Exec,
    /// Prepares a program that was executed under a debugger, when the debugger first resumes it.
    Trace,
    /// Creates a timerfd.
    TimerfdCreate,
    /// Sets a timerfd.
    TimerfdSettime,
    /// Returns the remaining virtual time of a timerfd.
    TimerfdGettime,
    /// Creates a POSIX timer.
    TimerCreate,
    /// Sets a POSIX timer.
    TimerSettime,
    /// Returns the remaining virtual time of a POSIX timer.
    TimerGettime,
    /// Returns the overrun count of a POSIX timer.
    TimerGetoverrun,
    /// Deletes a POSIX timer.
    TimerDelete,
    /// Sets the process's interval timer.
    Setitimer,
    /// Returns the remaining virtual time of the process's interval timer.
    Getitimer,
    /// Sets the process's interval timer in whole seconds.
    Alarm,
    /// Sets a clock of the guest's host.
    ClockSettime,
    /// Sets CLOCK_REALTIME of the guest's host.
    Settimeofday,
    /// Adjusts CLOCK_REALTIME of the guest's host.
    Adjtimex,
    /// Adjusts a clock of the guest's host.
    ClockAdjtime,
    /// Refuses `io_uring`, whose waits cannot be trapped. If the session permits it, counts it as a
    /// leak of real time.
    IoUring,
    /// Counts and reports a call that is executed in real time.
    RealTime,
    /// Counts and reports an `ioctl` that is executed in real time ([`crate::calls::IOCTLS`]).
    Device,
    /// Counts and reports a socket option that returns real time ([`crate::calls::SOCKET_OPTIONS`]).
    SocketOption,
    /// Counts and reports a limit of processor time (`setrlimit`).
    CpuLimit,
    /// Counts and reports a limit of another process's processor time (`prlimit`).
    CpuLimitOf,
    /// Counts and reports scheduler settings that contain real-time budgets and deadlines.
    Schedule,
    /// Refuses a time namespace other than the caller's own. If the session permits it, counts it
    /// as a leak of real time.
    TimeNamespace,
    /// Refuses alternate signal stacks on which a signal frame and the image's frames do not fit.
    SignalStack,
    /// Answers a question of the image ([`crate::calls::ImageCall`]).
    Image,
}

impl SupervisorService {
    /// Returns true if the service is still needed after the program was released from its session.
    /// Programs started by an exec need the image. `sigaltstack` needs it because a call in a
    /// signal handler would have no effect: the return from the handler restores the previous
    /// stack.
    pub const fn outlasts_session(self) -> bool {
        matches!(self, Self::Exec | Self::SignalStack | Self::Image)
    }
}
