//! Options of a session's clock, and of the parts of the machine's time that programs still see.
//!
//! The documentation of the enums is also that of their words in the schema of scenarios.

use serde::Serialize;
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

/// File timestamps that programs see.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "clap", derive(clap::ValueEnum))]
#[cfg_attr(feature = "schemars", derive(schemars::JsonSchema))]
#[serde(rename_all = "lowercase")]
pub enum FileTimes {
    /// Timestamps of the machine.
    #[default]
    Machine,
    /// Timestamps of the host's clock, for files that are read, written or created in the run. Each
    /// `stat` traps.
    Virtual,
}

/// Virtual duration of computation.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "clap", derive(clap::ValueEnum))]
#[cfg_attr(feature = "schemars", derive(schemars::JsonSchema))]
#[serde(rename_all = "lowercase")]
pub enum Compute {
    // Divided by the dilation.
    /// Real time that the machine needs for the computation.
    #[default]
    Real,
    // CLOCK_MONOTONIC then also begins at the same instant in each run.
    /// Zero: time stands still while any program computes, and advances to the next event when all
    /// wait. Programs that depend on nothing else behave identically in each run.
    None,
}

/// Time-stamp counter for programs that read it directly.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "clap", derive(clap::ValueEnum))]
#[cfg_attr(feature = "schemars", derive(schemars::JsonSchema))]
#[serde(rename_all = "lowercase")]
pub enum Tsc {
    // The session does not notice such reads.
    /// Counter of the machine, which shows real time.
    #[default]
    Native,
    // The counter is in step with the host's CLOCK_MONOTONIC_RAW. Clock reads make a system call.
    /// Virtual counter with the same frequency. Each read traps, so reading a clock takes longer.
    Emulate,
}

/// Contents of the files /proc/uptime and /proc/stat, which show time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "clap", derive(clap::ValueEnum))]
#[cfg_attr(feature = "schemars", derive(schemars::JsonSchema))]
#[serde(rename_all = "lowercase")]
#[cfg_attr(feature = "schemars", schemars(rename = "Proc"))]
pub enum ProcFiles {
    /// Uptime and boot time by the host's clock, in a mount namespace of the host.
    #[default]
    Virtual,
    /// The machine's `/proc`, over which nothing is mounted.
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
