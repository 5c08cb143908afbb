//! How a session's clock starts, and what of the machine's time programs still see.

use timeloom_time::{Duration, Instant, Utc};

/// How a new clock starts.
#[derive(Clone, Copy, Debug)]
pub struct ClockOptions {
    /// What CLOCK_REALTIME shows at virtual time zero; the machine's if none.
    pub start: Option<Instant<Utc>>,
    /// What CLOCK_MONOTONIC and CLOCK_BOOTTIME show at virtual time zero. Without it they show
    /// the machine's values, or a day where computing takes no time.
    pub up_for: Option<Duration>,
    /// Wall seconds per virtual second.
    pub dilation: f64,
    /// Whether it stands until it is resumed.
    pub paused: bool,
    /// What programs see of the time-stamp counter.
    pub tsc: Tsc,
    /// What programs see of the files that tell time.
    pub proc: ProcFiles,
    /// Dates of files that programs see.
    pub files: FileTimes,
    /// Whether computing takes time.
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

/// How much time computing takes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Compute {
    /// As much as the machine needs for it, at the dilation in force.
    #[default]
    Real,
    /// None: the clock stands while anybody computes, and moves only by skipping, to
    /// the next deadline when all wait. Programs that do the same thing then see the
    /// same time, however fast the machine is. Their CLOCK_MONOTONIC begins at the same
    /// instant each time, too.
    None,
}

/// What a program sees that reads the processor's time-stamp counter itself
/// (`rdtsc`, `rdtscp`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Tsc {
    /// The machine's counter: real time, and nobody learns of it.
    #[default]
    Native,
    /// A virtual counter of the machine's frequency, in step with the host's
    /// CLOCK_MONOTONIC_RAW. Each read traps, and clock reads make a system call.
    Emulate,
}

/// What programs see of the files that tell time, `/proc/uptime` and `/proc/stat`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ProcFiles {
    /// Their host's uptime and boot time, in a mount namespace of their own.
    #[default]
    Virtual,
    /// The machine's, in the machine's mount namespace.
    Machine,
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
