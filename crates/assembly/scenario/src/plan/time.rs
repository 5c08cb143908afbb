//! The `[time]` table: the clock of the experiment.

use schemars::JsonSchema;
use serde::Serialize;
use timeloom_time::{Duration, Instant, Rate, Utc};

use crate::read::{Fields, Read};
use crate::words;

/// The clock of the experiment.
#[derive(Clone, Debug, Default, PartialEq, Serialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub struct Time {
    /// Time that programs see.
    #[schemars(default)]
    pub mode: Mode,
    /// Length of the run in virtual time, as in `90 s`.
    #[serde(serialize_with = "words::as_text")]
    #[schemars(with = "words::DurationText")]
    pub duration: Duration,
    /// Initial civil time seen by programs, in RFC 3339 as in `2019-06-03T00:00:00Z`; if left out,
    /// the machine's.
    #[serde(
        serialize_with = "words::utc_as_text",
        skip_serializing_if = "Option::is_none"
    )]
    #[schemars(with = "Option<words::CivilText>")]
    pub start: Option<Instant<Utc>>,
    /// Wall seconds per virtual second: 2 makes the experiment take twice as long as its programs
    /// observe; 0.001 … 1000.
    #[schemars(default = "one", range(min = 0.001, max = 1000.0))]
    pub dilation: f64,
    /// Time-stamp counter seen by programs.
    #[schemars(default)]
    pub tsc: Tsc,
    /// Contents of /proc/uptime and /proc/stat seen by programs.
    #[schemars(default)]
    pub proc: Proc,
    /// File timestamps seen by programs.
    #[schemars(default)]
    pub files: FileTimes,
    /// Duration of computation; `none` only in modes with time skips.
    #[schemars(default)]
    pub compute: Compute,
    /// Settings for granting time; only with `mode = "stepped"`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stepped: Option<Stepping>,
}

impl Time {
    /// Returns the virtual seconds per wall second while nothing is paused: 1 / dilation.
    pub fn rate(&self) -> Rate {
        // The checked range lies far inside that of `Rate`.
        Rate::from_f64(self.dilation)
            .and_then(Rate::inverse)
            .unwrap_or(Rate::ONE)
    }

    /// Returns true if time skips while every program waits.
    pub fn skips(&self) -> bool {
        match self.mode {
            Mode::Skip => true,
            Mode::Stepped => self.stepping().skip,
            Mode::Virtual | Mode::Real => false,
        }
    }

    /// Returns the settings of mode `stepped`.
    pub fn stepping(&self) -> Stepping {
        self.stepped.clone().unwrap_or_default()
    }
}

/// Settings for time granted by an external simulator.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub struct Stepping {
    /// Skips time within a grant while every program waits.
    #[schemars(default)]
    pub skip: bool,
    /// Longest time, in wall time, without a connected simulator before the run is aborted.
    #[serde(serialize_with = "words::as_text")]
    #[schemars(with = "words::DurationText", default = "sixty_seconds")]
    pub patience: Duration,
}

impl Default for Stepping {
    fn default() -> Self {
        Self {
            skip: false,
            patience: PATIENCE,
        }
    }
}

impl Read for Stepping {
    const NOUN: &'static str = "[time.stepped]";

    fn read_table(fields: &mut Fields<'_>) -> Self {
        Self {
            skip: fields.or_default("skip"),
            patience: fields.or("patience", PATIENCE),
        }
    }
}

/// Long enough to start a simulator, short enough to be noticed.
const PATIENCE: Duration = Duration::from_s(60);

fn sixty_seconds() -> Duration {
    PATIENCE
}

/// Time seen by programs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Mode {
    /// A virtual clock, paused and resumed as the simulation needs.
    #[default]
    Virtual,
    /// Like `virtual`, and while every program waits, time skips to the next event: the run takes
    /// as long as its computations.
    Skip,
    /// Like `virtual`, but time stands still until an external simulator grants a time, and
    /// advances no further than that.
    Stepped,
    /// The machine's clock; nothing is ever paused. For comparison.
    Real,
}

impl std::fmt::Display for Mode {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Virtual => "virtual",
            Self::Skip => "skip",
            Self::Stepped => "stepped",
            Self::Real => "real",
        })
    }
}

/// Time-stamp counter seen by programs that read it directly.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Tsc {
    /// The machine's counter, which shows real time.
    #[default]
    Native,
    /// A virtual counter of the same frequency. Each read traps, and reading clocks takes longer.
    Emulate,
}

/// Contents of the files that show time, /proc/uptime and /proc/stat.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Proc {
    /// Uptime and boot time of the host's clock, in a mount namespace of its own.
    #[default]
    Virtual,
    /// The machine's `/proc`; nothing is mounted over it.
    Machine,
}

/// File timestamps seen by programs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum FileTimes {
    /// The machine's timestamps.
    #[default]
    Machine,
    /// For files read, written or created in the run, timestamps of the host's clock. Each `stat`
    /// traps.
    Virtual,
}

/// Virtual duration of computation.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Compute {
    /// The real time that the machine needs for it.
    #[default]
    Real,
    /// Zero: time stands still while any program computes. When all programs wait, it advances to
    /// the next event. Programs that depend on nothing else behave identically in each run.
    None,
}

fn one() -> f64 {
    1.0
}

impl Read for Time {
    const NOUN: &'static str = "[time]";

    fn read_table(fields: &mut Fields<'_>) -> Self {
        Self {
            mode: fields.or_default("mode"),
            duration: fields.required("duration"),
            start: fields.optional("start"),
            dilation: fields.or("dilation", 1.0),
            tsc: fields.or_default("tsc"),
            proc: fields.or_default("proc"),
            files: fields.or_default("files"),
            compute: fields.or_default("compute"),
            stepped: fields.optional("stepped"),
        }
    }
}
