//! The clock of a host: how it differs from the true, virtual time.

use schemars::JsonSchema;
use serde::Serialize;
use timeloom_time::Duration;

use crate::read::{Fields, Read};
use crate::words::{self, FrequencyError};

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
/// states as its daemon has set them, in seconds.
pub const CLOCK_SIGNALS: [&str; 4] = [
    "clock.offset",
    "clock.frequency",
    "clock.esterror",
    "clock.maxerror",
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
