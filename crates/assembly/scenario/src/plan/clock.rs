//! The clock of a host: its deviation from true (virtual) time.

use std::path::PathBuf;

use schemars::JsonSchema;
use serde::Serialize;
use timeloom_time::Duration;

use crate::read::{Fields, Read};
use crate::words::{self, CoreFrequency, FrequencyError};

/// The clock of a host. It may be wrong, and programs of the host may steer and set it. Without
/// this table, it shows true time until a program sets it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, JsonSchema)]
#[schemars(deny_unknown_fields, rename = "HostClock")]
pub struct ClockSpec {
    /// Initial offset of CLOCK_REALTIME from true time; positive means ahead.
    #[serde(serialize_with = "words::as_text")]
    #[schemars(default, with = "words::DurationText")]
    pub offset: Duration,
    /// Initial frequency error of the oscillator, as in `50 ppm`; positive means fast.
    #[schemars(default)]
    pub frequency: FrequencyError,
    /// Change of the frequency error per day (ageing).
    #[schemars(default)]
    pub drift_per_day: FrequencyError,
    /// Standard deviation of the random frequency step made each second (random walk of frequency).
    #[schemars(default)]
    pub wander: FrequencyError,
    /// Standard deviation of the frequency from second to second (white noise of frequency).
    #[schemars(default)]
    pub jitter: FrequencyError,
    /// Effect of temperature on the frequency; none if absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub temperature: Option<Temperature>,
    /// The core driven by the oscillator, if the host's kernel counts the cycles of a core whose
    /// frequency changes; otherwise the kernel counts the oscillator.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cycles: Option<Cycles>,
}

/// A core whose cycles a host counts and converts to time, as the RVEC clock does. Its frequency
/// follows exactly one of `trace`, `governor` or, like a processor of this machine, `cpufreq`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub struct Cycles {
    /// File of frequency changes, one per line, as in `1.5 s 800 MHz`; the first at `0 s`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub trace: Option<PathBuf>,
    /// The kernel's cpufreq directory of the processor of this machine whose frequency the core
    /// follows: `/sys/devices/system/cpu/cpu0/cpufreq`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cpufreq: Option<PathBuf>,
    /// Governor that chooses the frequency.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub governor: Option<GovernorPolicy>,
    /// Frequencies available to the governor, in ascending order.
    #[schemars(default)]
    pub frequencies: Vec<CoreFrequency>,
    /// Fraction of time with heavy load, as seen by the governor, 0 to 1.
    #[schemars(default = "half")]
    pub load: f64,
    /// Mean duration of a phase of constant load.
    #[serde(serialize_with = "words::as_text")]
    #[schemars(default, with = "words::DurationText")]
    pub burst: Duration,
    /// Interval at which the governor samples the load, or the machine's frequency is read (by the
    /// machine's own clock).
    #[serde(serialize_with = "words::as_text")]
    #[schemars(default, with = "words::DurationText")]
    pub sampling: Duration,
    /// Duration of a frequency change; during half of it, the old frequency is in effect.
    #[serde(serialize_with = "words::as_text")]
    #[schemars(default, with = "words::DurationText")]
    pub switch: Duration,
}

/// Policy of a frequency governor.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum GovernorPolicy {
    /// The highest frequency if the core was busy for more than 80 %, otherwise in proportion to
    /// the load.
    #[default]
    Ondemand,
    /// The lowest frequency that leaves a quarter of the capacity to spare.
    Schedutil,
}

fn half() -> f64 {
    0.5
}

/// A sinusoidal temperature cycle, acting through the parabola of an AT-cut crystal: 0.04 ppm/K² to
/// either side of its turnover. `frequency` applies at the middle of the cycle, where a run begins.
#[derive(Clone, Debug, Default, PartialEq, Serialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub struct Temperature {
    /// Half of the temperature range, in kelvin.
    pub swing_k: f64,
    /// Length of the cycle.
    #[serde(serialize_with = "words::as_text")]
    #[schemars(with = "words::DurationText")]
    pub period: Duration,
    /// Difference between the mean temperature and the turnover temperature, in kelvin.
    #[schemars(default)]
    pub above_turnover_k: f64,
}

/// Recorded signals of a clock, as `HOST.clock.NAME`: its true error in seconds; its true frequency
/// error in ppm; the error bounds stated by its kernel as set by the host's daemon, in seconds; for
/// a clock that counts cycles, the largest possible lag behind its oscillator, in seconds; and the
/// frequency of a core that follows one of the machine's, in hertz.
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
