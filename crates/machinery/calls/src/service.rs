//! What the supervisor is asked for.

/// What of the supervisor answers a call that comes to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Service {
    /// Follows an exec and prepares the new program.
    Exec,
    /// Prepares a program that was executed under a debugger, at the debugger's first request that
    /// resumes it.
    Trace,
    /// Makes a timerfd.
    TimerfdCreate,
    /// Sets one.
    TimerfdSettime,
    /// Tells what is left of one.
    TimerfdGettime,
    /// Makes a POSIX timer.
    TimerCreate,
    /// Sets one.
    TimerSettime,
    /// Tells what is left of one.
    TimerGettime,
    /// Tells how often one expired unheard.
    TimerGetoverrun,
    /// Ends one.
    TimerDelete,
    /// Sets the process's interval timer.
    Setitimer,
    /// Tells what is left of it.
    Getitimer,
    /// Sets it by whole seconds.
    Alarm,
    /// Sets a clock of the guest's host.
    ClockSettime,
    /// Sets its CLOCK_REALTIME.
    Settimeofday,
    /// Steers its CLOCK_REALTIME.
    Adjtimex,
    /// Steers a clock of it.
    ClockAdjtime,
    /// Refuses `io_uring`, whose waits cannot be trapped, or counts it as a leak.
    IoUring,
    /// Counts and names a call that is done in real time.
    RealTime,
    /// Counts and names an `ioctl` that is done in real time ([`crate::IOCTLS`]).
    Device,
    /// Counts and names a socket's option that tells real time ([`crate::SOCKET_OPTIONS`]).
    SocketOption,
    /// Counts and names a limit of processor time (`setrlimit`).
    CpuLimit,
    /// Counts and names a limit of another process's processor time (`prlimit`).
    CpuLimitOf,
    /// Counts and names budgets and deadlines of the scheduler.
    Schedule,
    /// Refuses a time namespace other than the one the caller is in, or counts it as a
    /// leak.
    TimeNamespace,
    /// Refuses alternate stacks onto which a signal under the clock does not fit.
    SignalStack,
    /// Answers the image's own question ([`crate::ImageCall`]).
    Image,
}

impl Service {
    /// Whether it stays with a supervisor after its program was let go: what an exec
    /// starts needs the image, and of `sigaltstack` a handler can do nothing, since its
    /// end brings back the stack that was.
    pub const fn outlasts_session(self) -> bool {
        matches!(self, Self::Exec | Self::SignalStack | Self::Image)
    }
}
