//! Start of a session's clock, and the parts of the machine's time that programs still see.

use timeloom_time::{Duration, Instant, Utc};

/// Options of a new clock.
#[derive(Clone, Copy, Debug)]
pub struct ClockOptions {
    /// CLOCK_REALTIME at virtual time zero; the machine's if `None`.
    pub start: Option<Instant<Utc>>,
    /// CLOCK_MONOTONIC and CLOCK_BOOTTIME at virtual time zero. If `None`, the machine's values, or
    /// a day if computing takes no time.
    pub up_for: Option<Duration>,
    /// Wall seconds per virtual second.
    pub dilation: f64,
    /// True if the clock is paused until it is resumed.
    pub paused: bool,
    /// Time-stamp counter that programs see.
    pub tsc: Tsc,
    /// Files with time information that programs see.
    pub proc: ProcFiles,
    /// Dates of files that programs see.
    pub files: FileTimes,
    /// Determines if computing takes time.
    pub compute: Compute,
}

/// Dates of files that programs see.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum FileTimes {
    /// The machine's dates.
    #[default]
    Machine,
    /// For files read, written or made in the session, the dates of the host's clock. Each `stat`
    /// traps.
    Virtual,
}

/// Time that computing takes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Compute {
    /// Computing takes as much virtual time as the machine needs, at the current dilation.
    #[default]
    Real,
    /// None: the clock stands while any thread computes, and moves only by skipping to the next
    /// deadline when all threads wait. Programs that do the same thing then see the same time,
    /// however fast the machine is. Their CLOCK_MONOTONIC begins at the same instant each time,
    /// too.
    None,
}

/// Values seen by a program that reads the processor's time-stamp counter itself (`rdtsc`,
/// `rdtscp`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Tsc {
    /// The machine's counter: real time, and such reads are not noticed.
    #[default]
    Native,
    /// A virtual counter of the machine's frequency, in step with the host's
    /// CLOCK_MONOTONIC_RAW. Each read traps, and clock reads make a system call.
    Emulate,
}

/// Contents of the files `/proc/uptime` and `/proc/stat` that programs see.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ProcFiles {
    /// Uptime and boot time of the host, in a mount namespace of their own.
    #[default]
    Virtual,
    /// The machine's, in the machine's mount namespace.
    Machine,
}

impl ClockOptions {
    /// Uptime at the beginning of a session that is to be reproducible: a day.
    pub const UP_FOR: Duration = Duration::from_s(86_400);
}

impl Default for ClockOptions {
    fn default() -> Self {
        Self {
            start: None,
            up_for: None,
            dilation: 1.0,
            paused: false,
            tsc: Tsc::Native,
            proc: ProcFiles::Virtual,
            files: FileTimes::Machine,
            compute: Compute::Real,
        }
    }
}
