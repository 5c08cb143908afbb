//! Table `[time]`: the clock of the experiment.

use std::ops::RangeInclusive;

use timeloom_guest::{Compute, FileTimes, ProcFiles, Tsc};
use timeloom_time::{Duration, Instant, Rate, Utc};

use crate::table::{table, words};

table! {
/// Clock of the experiment.
#[noun = "[time]"]
pub struct Time {
    /// Kind of time that programs see.
    pub mode: Mode = Mode::default(),
    /// Duration of the run in virtual time, such as `90 s`.
    pub duration: Duration,
    /// Civil time that programs see at the beginning, in RFC 3339 such as `2019-06-03T00:00:00Z`.
    /// If left out, the machine's.
    pub start: Option<Instant<Utc>>,
    /// Wall seconds per virtual second, from 0.001 to 1000. With 2, the experiment takes twice as
    /// long as its programs observe.
    #[within(Self::DILATIONS)]
    pub dilation: f64 = 1.0,
    /// Time-stamp counter that programs see.
    pub tsc: Tsc = Tsc::default(),
    /// Contents of /proc/uptime and /proc/stat that programs see.
    pub proc: ProcFiles = ProcFiles::default(),
    /// File timestamps that programs see.
    pub files: FileTimes = FileTimes::default(),
    /// Virtual duration of computation. `none` is possible only in modes in which time skips.
    pub compute: Compute = Compute::default(),
    /// Period at whose multiples all clocks stop while the plants compute. By default the run stops
    /// only for exchanges with plants.
    pub period: Option<Duration>,
    /// Settings for the granting of time; only with `mode = "stepped"`.
    pub stepped: Option<Stepping>,
}
}

impl Time {
    /// Permitted dilations. With a larger one, a run would not end; with a smaller one, its clock
    /// would be too fast for any program.
    pub(crate) const DILATIONS: RangeInclusive<f64> = 0.001..=1000.0;

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

table! {
/// Settings for time that an external simulator grants.
#[noun = "[time.stepped]"]
pub struct Stepping {
    /// Lets time skip, within a grant, while all programs wait.
    pub skip: bool = false,
    /// Maximum wall time without a connected simulator. The run is then aborted.
    // Long enough for a simulator to start, and short enough for its absence to be noticed.
    pub patience: Duration = Duration::from_s(60),
}
}

words! {
/// Kind of time that programs see.
pub enum Mode {
    /// Virtual clock, which is paused and resumed as the simulation requires.
    Virtual = "virtual",
    /// Like `virtual`, but time skips to the next event while all programs wait. The run takes as
    /// long as its computations.
    Skip = "skip",
    /// Like `virtual`, but time stands still until an external simulator grants an instant, and
    /// advances only up to that instant.
    Stepped = "stepped",
    /// Clock of the machine, which is never paused. For comparison.
    Real = "real",
}
}

impl std::fmt::Display for Mode {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.word())
    }
}
