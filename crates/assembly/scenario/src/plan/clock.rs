//! The clock of a host: how it differs from the true, virtual time.

use std::path::PathBuf;

use schemars::JsonSchema;
use serde::Serialize;
use timeloom_time::Duration;

use crate::read::{Fields, Read};
use crate::words::{self, CoreFrequency, FrequencyError};

/// The clock of a host, which may be wrong, and which the host's programs may
/// steer and set. Without this table it shows true time until one does.
#[derive(Clone, Debug, Default, PartialEq, Serialize, JsonSchema)]
#[schemars(deny_unknown_fields, rename = "HostClock")]
pub struct ClockSpec {
    /// How much its CLOCK_REALTIME is ahead of true time at the beginning;
    /// negative: behind.
    #[serde(serialize_with = "words::as_text")]
    #[schemars(default, with = "words::DurationText")]
    pub offset: Duration,
    /// How much too fast its oscillator runs at the beginning, as in `50 ppm`.
    #[schemars(default)]
    pub frequency: FrequencyError,
    /// How much faster the oscillator gets per day: ageing.
    #[schemars(default)]
    pub drift_per_day: FrequencyError,
    /// Standard deviation of the random step that its frequency makes each
    /// second: random walk of frequency.
    #[schemars(default)]
    pub wander: FrequencyError,
    /// Standard deviation of its frequency from second to second: white noise
    /// of frequency.
    #[schemars(default)]
    pub jitter: FrequencyError,
    /// What the temperature does to it; nothing if absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub temperature: Option<Temperature>,
    /// The core that the oscillator drives, if the host's kernel counts the cycles of
    /// a core whose frequency changes; else it counts the oscillator.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cycles: Option<Cycles>,
}

/// A core whose cycles a host counts, made into time as the RVEC clock does it. Its
/// frequency changes by a `trace`, by a `governor`, or as a processor of this machine does
/// (`cpufreq`), one of the three.
#[derive(Clone, Debug, Default, PartialEq, Serialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub struct Cycles {
    /// A file of changes, one a line, as in `1.5 s 800 MHz`; the first at `0 s`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub trace: Option<PathBuf>,
    /// The kernel's directory of a processor of this machine, whose frequency the core
    /// follows: `/sys/devices/system/cpu/cpu0/cpufreq`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cpufreq: Option<PathBuf>,
    /// Who chooses the frequency instead.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub governor: Option<GovernorPolicy>,
    /// What the governor may choose, rising.
    #[schemars(default)]
    pub frequencies: Vec<CoreFrequency>,
    /// How much of the time the governor sees heavy work, 0 to 1.
    #[schemars(default = "half")]
    pub load: f64,
    /// For how long the work is as heavy as it is, on average.
    #[serde(serialize_with = "words::as_text")]
    #[schemars(default, with = "words::DurationText")]
    pub burst: Duration,
    /// How often the governor looks, or the machine is asked, which is by its own clock.
    #[serde(serialize_with = "words::as_text")]
    #[schemars(default, with = "words::DurationText")]
    pub sampling: Duration,
    /// How long a change of frequency takes; half of that at the old one.
    #[serde(serialize_with = "words::as_text")]
    #[schemars(default, with = "words::DurationText")]
    pub switch: Duration,
}

/// How a governor chooses a core's frequency.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum GovernorPolicy {
    /// The highest when the core was busy for more than 80 %, else in proportion.
    #[default]
    Ondemand,
    /// The lowest that has a quarter to spare.
    Schedutil,
}

fn half() -> f64 {
    0.5
}

/// A sinusoidal cycle of temperature, through the parabola of an AT-cut
/// crystal: 0.04 ppm/K² to either side of its turnover. `frequency` is what it
/// is at the middle of the cycle, where a run begins.
#[derive(Clone, Debug, Default, PartialEq, Serialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub struct Temperature {
    /// Half of the swing, in kelvin.
    pub swing_k: f64,
    /// The length of the cycle.
    #[serde(serialize_with = "words::as_text")]
    #[schemars(with = "words::DurationText")]
    pub period: Duration,
    /// The middle of the swing above the turnover temperature, in kelvin.
    #[schemars(default)]
    pub above_turnover_k: f64,
}

/// What is recorded of a clock, as `HOST.clock.NAME`: its true error in
/// seconds, its true frequency error in ppm, and the bounds that its kernel
/// states as its daemon has set them, in seconds; of one that counts cycles, how far
/// it may be behind its oscillator, in seconds; and the frequency of a core that follows
/// one of the machine's, in hertz.
pub const CLOCK_SIGNALS: [&str; 6] = [
    "clock.offset",
    "clock.frequency",
    "clock.esterror",
    "clock.maxerror",
    "clock.missing",
    "clock.core",
];

impl Read for ClockSpec {
    const NOUN: &'static str = "a clock";

    fn read_table(fields: &mut Fields<'_>) -> Self {
        Self {
            offset: fields.or_default("offset"),
            frequency: fields.or_default("frequency"),
            drift_per_day: fields.or_default("drift_per_day"),
            wander: fields.or_default("wander"),
            jitter: fields.or_default("jitter"),
            temperature: fields.optional("temperature"),
            cycles: fields.optional("cycles"),
        }
    }
}

impl Read for Cycles {
    const NOUN: &'static str = "a core whose cycles are counted";

    fn read_table(fields: &mut Fields<'_>) -> Self {
        Self {
            trace: fields.path("trace"),
            cpufreq: fields.path("cpufreq"),
            governor: fields.optional("governor"),
            frequencies: fields.or_default("frequencies"),
            load: fields.or("load", half()),
            burst: fields.or("burst", Duration::from_s(1)),
            sampling: fields.or("sampling", Duration::from_ms(10)),
            switch: fields.or("switch", Duration::from_us(50)),
        }
    }
}

impl Read for Temperature {
    const NOUN: &'static str = "a temperature";

    fn read_table(fields: &mut Fields<'_>) -> Self {
        Self {
            swing_k: fields.required("swing_k"),
            period: fields.required("period"),
            above_turnover_k: fields.or_default("above_turnover_k"),
        }
    }
}
