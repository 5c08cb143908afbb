//! Clock of a host: its deviation from true (virtual) time.

use std::path::PathBuf;

use schemars::JsonSchema;
use serde::Serialize;
use timeloom_clock::RateError;
use timeloom_clock::counter::GovernorPolicy;
use timeloom_time::Duration;

use crate::read::{Fields, Read};
use crate::words::{self, CoreFrequency};

/// Clock of a host, which may be wrong. Programs of the host may steer and set it. Without this
/// table, the clock shows true time until a program sets it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, JsonSchema)]
#[schemars(deny_unknown_fields, rename = "HostClock")]
pub struct ClockSpec {
    /// Initial offset of CLOCK_REALTIME from true time; positive means ahead.
    #[serde(serialize_with = "words::as_text")]
    #[schemars(default, with = "words::DurationText")]
    pub offset: Duration,
    /// Initial frequency error of the oscillator, as in `50 ppm`; positive means fast.
    #[serde(serialize_with = "words::as_text")]
    #[schemars(default, with = "words::RateErrorText")]
    pub frequency: RateError,
    /// Change of the frequency error per day, by ageing.
    #[serde(serialize_with = "words::as_text")]
    #[schemars(default, with = "words::RateErrorText")]
    pub drift_per_day: RateError,
    /// Standard deviation of a random step of the frequency, made once per second (random walk of
    /// frequency).
    #[serde(serialize_with = "words::as_text")]
    #[schemars(default, with = "words::RateErrorText")]
    pub wander: RateError,
    /// Standard deviation of the frequency from one second to the next (white noise of frequency).
    #[serde(serialize_with = "words::as_text")]
    #[schemars(default, with = "words::RateErrorText")]
    pub jitter: RateError,
    /// Effect of temperature on the frequency; if left out, none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub temperature: Option<Temperature>,
    /// Core driven by the oscillator, for a host whose kernel counts the cycles of a core with a
    /// changing frequency. If left out, the kernel counts the oscillator.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cycles: Option<Cycles>,
}

/// Core whose cycles a host counts and converts to time, as the RVEC clock does. Exactly one of
/// `trace`, `governor` and `cpufreq` determines its frequency; with `cpufreq`, it follows a
/// processor of this machine.
#[derive(Clone, Debug, Default, PartialEq, Serialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub struct Cycles {
    /// File of frequency changes, one per line, such as `1.5 s 800 MHz`; the first is at `0 s`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub trace: Option<PathBuf>,
    /// cpufreq directory of the processor of this machine that the core follows, such as
    /// `/sys/devices/system/cpu/cpu0/cpufreq`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cpufreq: Option<PathBuf>,
    /// Governor that chooses the frequency.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub governor: Option<GovernorPolicy>,
    /// Frequencies that the governor can choose, in ascending order.
    #[schemars(default)]
    pub frequencies: Vec<CoreFrequency>,
    /// Fraction of time with heavy load, from 0 to 1, for the governor.
    #[schemars(default = "half")]
    pub load: f64,
    /// Mean duration of a phase in which the load is constant.
    #[serde(serialize_with = "words::as_text")]
    #[schemars(default, with = "words::DurationText")]
    pub burst: Duration,
    /// Interval at which the governor samples the load. With `cpufreq`, interval at which the
    /// frequency is read, by the machine's own clock.
    #[serde(serialize_with = "words::as_text")]
    #[schemars(default, with = "words::DurationText")]
    pub sampling: Duration,
    /// Duration of a frequency change. The old frequency is in effect during half of it.
    #[serde(serialize_with = "words::as_text")]
    #[schemars(default, with = "words::DurationText")]
    pub switch: Duration,
}

fn half() -> f64 {
    0.5
}

/// Sinusoidal temperature cycle. The frequency depends on the temperature like that of an AT-cut
/// crystal: by a parabola of 0.04 ppm/K² about the turnover temperature. `frequency` is the
/// frequency error at the mean temperature, which a run begins with.
#[derive(Clone, Debug, Default, PartialEq, Serialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub struct Temperature {
    /// Half of the temperature range, in kelvin.
    pub swing_k: f64,
    /// Duration of one temperature cycle.
    #[serde(serialize_with = "words::as_text")]
    #[schemars(with = "words::DurationText")]
    pub period: Duration,
    /// Mean temperature minus turnover temperature, in kelvin.
    #[schemars(default)]
    pub above_turnover_k: f64,
}

/// Names of the recorded signals of a clock, in `HOST.clock.NAME`. They are: its true error in
/// seconds; its true frequency error in ppm; two error bounds in seconds, as the host's daemon has
/// told the kernel; for a clock that counts cycles, its largest possible lag behind the oscillator
/// in seconds; and for a core that follows a processor of this machine, the frequency in hertz.
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
