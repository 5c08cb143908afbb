//! Options of a session's clock, and of the parts of the machine's time that programs still see.

use timeloom_time::{Duration, Instant, Utc};

/// Options of a new clock.
#[derive(Clone, Copy, Debug)]
pub struct ClockOptions {
    /// CLOCK_REALTIME at virtual time zero; `None` for the machine's.
    pub start: Option<Instant<Utc>>,
    /// CLOCK_MONOTONIC and CLOCK_BOOTTIME at virtual time zero. `None` for the machine's values, or
    /// for a day if computing takes no time.
    pub up_for: Option<Duration>,
    /// Wall seconds per virtual second.
    pub dilation: f64,
    /// True if the clock is paused from the start.
    pub paused: bool,
    /// Time-stamp counter that programs see.
    pub tsc: Tsc,
    /// Contents of `/proc/uptime` and `/proc/stat` that programs see.
    pub proc: ProcFiles,
    /// Dates of files that programs see.
    pub files: FileTimes,
    /// Virtual time that computing takes.
    pub compute: Compute,
}

/// Dates of files that programs see.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum FileTimes {
    /// The machine's dates.
    #[default]
    Machine,
    /// For files read, written or created in the session: dates by the host's clock. Each `stat`
    /// traps.
    Virtual,
}

/// Virtual time that computing takes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Compute {
    /// Computing takes the wall time that the machine needs, divided by the dilation.
    #[default]
    Real,
    /// Computing takes no virtual time. The clock stands while any thread computes, and moves only
    /// by skipping to the next deadline when all threads wait. Programs with the same behaviour
    /// then see the same time, however fast the machine is. Their CLOCK_MONOTONIC also begins at
    /// the same instant in each run.
    None,
}

/// Values that programs see when they read the processor's time-stamp counter by `rdtsc` or
/// `rdtscp`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Tsc {
    /// The machine's counter, in real time. Such reads are not noticed.
    #[default]
    Native,
    /// An emulated counter of the machine's frequency, in step with the host's CLOCK_MONOTONIC_RAW.
    /// Each read traps, and clock reads make a system call.
    Emulate,
}

/// Contents of the files `/proc/uptime` and `/proc/stat` that programs see.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ProcFiles {
    /// Uptime and boot time of the host. Programs have their own mount namespace.
    #[default]
    Virtual,
    /// The machine's contents. Programs stay in the machine's mount namespace.
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
