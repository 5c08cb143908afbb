//! Table `[time]`: the clock of the experiment.

use schemars::JsonSchema;
use serde::Serialize;
use timeloom_guest::{Compute, FileTimes, ProcFiles, Tsc};
use timeloom_time::{Duration, Instant, Rate, Utc};

use crate::read::{Fields, Read};
use crate::words;

/// Clock of the experiment.
#[derive(Clone, Debug, Default, PartialEq, Serialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub struct Time {
    /// Kind of time that programs see.
    #[schemars(default)]
    pub mode: Mode,
    /// Duration of the run in virtual time, such as `90 s`.
    #[serde(serialize_with = "words::as_text")]
    #[schemars(with = "words::DurationText")]
    pub duration: Duration,
    /// Civil time that programs see at the beginning, in RFC 3339 such as `2019-06-03T00:00:00Z`.
    /// If left out, the machine's.
    #[serde(
        serialize_with = "words::utc_as_text",
        skip_serializing_if = "Option::is_none"
    )]
    #[schemars(with = "Option<words::CivilText>")]
    pub start: Option<Instant<Utc>>,
    /// Wall seconds per virtual second, from 0.001 to 1000. With 2, the experiment takes twice as
    /// long as its programs observe.
    #[schemars(default = "one", range(min = 0.001, max = 1000.0))]
    pub dilation: f64,
    /// Time-stamp counter that programs see.
    #[schemars(default)]
    pub tsc: Tsc,
    /// Contents of /proc/uptime and /proc/stat that programs see.
    #[schemars(default)]
    pub proc: ProcFiles,
    /// File timestamps that programs see.
    #[schemars(default)]
    pub files: FileTimes,
    /// Virtual duration of computation. `none` is possible only in modes in which time skips.
    #[schemars(default)]
    pub compute: Compute,
    /// Settings for the granting of time; only with `mode = "stepped"`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stepped: Option<Stepping>,
}

impl Time {
    /// Returns the virtual seconds per wall second while nothing is paused, which is 1 / dilation.
    pub fn rate(&self) -> Rate {
        // The permitted values are well within the range of `Rate`.
        Rate::from_f64(self.dilation)
            .and_then(Rate::inverse)
            .unwrap_or(Rate::ONE)
    }

    /// Returns true if time skips while all programs wait.
    pub fn skips(&self) -> bool {
        match self.mode {
            Mode::Skip => true,
            Mode::Stepped => self.stepping().skip,
            Mode::Virtual | Mode::Real => false,
        }
    }

    /// Returns the settings for mode `stepped`; the defaults if the scenario has none.
    pub fn stepping(&self) -> Stepping {
        self.stepped.clone().unwrap_or_default()
    }
}

/// Settings for time that an external simulator grants.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub struct Stepping {
    /// Lets time skip, within a grant, while all programs wait.
    #[schemars(default)]
    pub skip: bool,
    /// Maximum wall time without a connected simulator. The run is then aborted.
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

/// Default of [`Stepping::patience`]: long enough for a simulator to start, and short enough for
/// its absence to be noticed.
const PATIENCE: Duration = Duration::from_s(60);

fn sixty_seconds() -> Duration {
    PATIENCE
}

/// Kind of time that programs see.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Mode {
    /// Virtual clock, which is paused and resumed as the simulation requires.
    #[default]
    Virtual,
    /// Like `virtual`, but time skips to the next event while all programs wait. The run takes as
    /// long as its computations.
    Skip,
    /// Like `virtual`, but time stands still until an external simulator grants an instant, and
    /// advances only up to that instant.
    Stepped,
    /// Clock of the machine, which is never paused. For comparison.
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
