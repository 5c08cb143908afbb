//! The `[time]` table: the one clock of the experiment.

use schemars::JsonSchema;
use serde::Serialize;
use timeloom_time::{Duration, Instant, Rate, Utc};

use crate::read::{Fields, Read};
use crate::words;

/// The one clock of the experiment.
#[derive(Clone, Debug, Default, PartialEq, Serialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub struct Time {
    /// Whether programs see virtual time.
    #[schemars(default)]
    pub mode: Mode,
    /// The length of the run in virtual time, as in `90 s`.
    #[serde(serialize_with = "words::as_text")]
    #[schemars(with = "words::DurationText")]
    pub duration: Duration,
    /// The civil time that programs see at the beginning, in RFC 3339 as in
    /// `2019-06-03T00:00:00Z`; without it, the machine's own.
    #[serde(
        serialize_with = "words::utc_as_text",
        skip_serializing_if = "Option::is_none"
    )]
    #[schemars(with = "Option<words::CivilText>")]
    pub start: Option<Instant<Utc>>,
    /// Wall seconds per virtual second: 2 makes the experiment take twice as
    /// long as its programs think; 0.001 … 1000.
    #[schemars(default = "one", range(min = 0.001, max = 1000.0))]
    pub dilation: f64,
    /// What programs see of the processor's time-stamp counter.
    #[schemars(default)]
    pub tsc: Tsc,
    /// What programs see in /proc/uptime and /proc/stat.
    #[schemars(default)]
    pub proc: Proc,
    /// Dates of files that programs see.
    #[schemars(default)]
    pub files: FileTimes,
    /// How much time computing takes; `none` only where time skips.
    #[schemars(default)]
    pub compute: Compute,
    /// How time is granted; only with `mode = "stepped"`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stepped: Option<Stepping>,
}

impl Time {
    /// Virtual seconds per wall second while nothing is paused: 1 / dilation.
    pub fn rate(&self) -> Rate {
        // The checked range lies far inside that of `Rate`.
        Rate::from_f64(self.dilation)
            .and_then(Rate::inverse)
            .unwrap_or(Rate::ONE)
    }

    /// Whether time skips while every program waits.
    pub fn skips(&self) -> bool {
        match self.mode {
            Mode::Skip => true,
            Mode::Stepped => self.stepping().skip,
            Mode::Virtual | Mode::Real => false,
        }
    }

    /// How time is granted in mode `stepped`.
    pub fn stepping(&self) -> Stepping {
        self.stepped.clone().unwrap_or_default()
    }
}

/// How time is granted from outside.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub struct Stepping {
    /// Whether time skips within a grant while every program waits.
    #[schemars(default)]
    pub skip: bool,
    /// How long, in wall time, the run stands with nobody there to grant it time
    /// before it is given up.
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

/// What time the programs see.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Mode {
    /// One virtual clock, paused and resumed as the simulation needs.
    #[default]
    Virtual,
    /// As `virtual`, and while every program waits, time skips to the next thing
    /// that happens: the run takes as long as the computing in it.
    Skip,
    /// As `virtual`, but time stands until somebody outside, a simulator,
    /// grants an instant; it goes no further than that.
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

/// What a program sees that reads the processor's time-stamp counter itself.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Tsc {
    /// The machine's counter, which is real time.
    #[default]
    Native,
    /// A virtual one of the same frequency. Each read traps, and reads of clocks
    /// take longer.
    Emulate,
}

/// What a program sees in the files that tell time, /proc/uptime and /proc/stat.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Proc {
    /// Uptime and boot time of its host's clock, in a mount namespace of its own.
    #[default]
    Virtual,
    /// The machine's `/proc`; nothing is mounted over it.
    Machine,
}

/// Dates of files that a program sees.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum FileTimes {
    /// The machine's dates.
    #[default]
    Machine,
    /// For files read, written or made in the run, the dates of the host's clock. Each `stat`
    /// traps.
    Virtual,
}

/// How much time computing takes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Compute {
    /// As much as the machine needs for it.
    #[default]
    Real,
    /// None: time stands while anybody computes, and moves only when all wait, to the
    /// next thing that happens. Programs that depend on nothing else do the same in
    /// each run.
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
