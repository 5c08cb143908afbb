//! Timelines of hosts: clocks with error bounds. A daemon keeps them, which runs as a program of
//! the host and has no more information than the host's other programs.

use schemars::JsonSchema;
use serde::Serialize;
use timeloom_clock::RateError;
use timeloom_time::Duration;
use timeloom_timeline::protocol::TimelineScale;

use crate::read::{Fields, Read};
use crate::words;

/// Timeline that a host derives from its sources and its own oscillator. The run, which knows true
/// time, records the timeline's deviation from it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, JsonSchema)]
#[schemars(deny_unknown_fields, rename = "HostTimeline")]
pub struct TimelineSpec {
    /// Time scale: `tai`, or `local` for the scale of the sources.
    #[schemars(default)]
    pub scale: TimelineScale,
    /// TAI minus UTC in seconds, for sources that provide UTC without this offset.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tai_offset_s: Option<u16>,
    /// Maximum half-width of the interval. The daemon polls its sources as often as this requires,
    /// and the run records violations.
    #[serde(
        serialize_with = "words::as_optional_text",
        skip_serializing_if = "Option::is_none"
    )]
    #[schemars(with = "Option<words::DurationText>")]
    pub accuracy: Option<Duration>,
    /// Maximum frequency error of the host's oscillator.
    #[serde(serialize_with = "words::as_text")]
    #[schemars(default = "hundred_ppm", with = "words::RateErrorText")]
    pub oscillator_error: RateError,
    /// Minimum interval between two polls of a source.
    #[serde(serialize_with = "words::as_text")]
    #[schemars(default = "shortest_poll", with = "words::DurationText")]
    pub poll_shortest: Duration,
    /// Maximum interval between two polls of a source.
    #[serde(serialize_with = "words::as_text")]
    #[schemars(default = "longest_poll", with = "words::DurationText")]
    pub poll_longest: Duration,
    /// Minimum time for which an answer of a source keeps the timeline in status `ok`.
    #[serde(serialize_with = "words::as_text")]
    #[schemars(default = "fresh", with = "words::DurationText")]
    pub fresh_for: Duration,
    /// Time after which an answer of a source is not used any more.
    #[serde(serialize_with = "words::as_text")]
    #[schemars(default = "to_live", with = "words::DurationText")]
    pub time_to_live: Duration,
    /// Time without an update after which readers consider the daemon dead.
    #[serde(serialize_with = "words::as_text")]
    #[schemars(default = "alive", with = "words::DurationText")]
    pub alive_for: Duration,
    /// Number of sources that may err by more than they state. If left out, a minority of them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tolerated_liars: Option<u16>,
    /// Accepts only authenticated answers of sources.
    #[schemars(default)]
    pub demand_authentication: bool,
    /// UDP address at which daemons of other hosts are answered, such as `0.0.0.0:8319`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub listen: Option<String>,
    /// Sources of time, as tables that docs/timeline.md describes.
    #[schemars(length(min = 1))]
    pub sources: Vec<serde_json::Map<String, serde_json::Value>>,
    /// Virtual interval at which the run compares the timeline with true time.
    #[serde(serialize_with = "words::as_text")]
    #[schemars(default = "every_second", with = "words::DurationText")]
    pub every: Duration,
    /// If true, the run fails when the daemon ends. A daemon keeps all timelines of a host, so its
    /// end is tolerated only if this is false for all of them.
    #[schemars(default = "yes")]
    pub essential: bool,
}

/// Names of the recorded signals of a timeline TL, in `HOST.timeline.TL.NAME`. The first three are
/// the estimate, the earliest and the latest time, each minus true time, in seconds. Then follow
/// half of the interval in seconds, and the number of the status. The last two are 1 if true time
/// is outside of the interval, and if `accuracy` is not met.
pub const TIMELINE_SIGNALS: [&str; 7] = [
    "error",
    "lower",
    "upper",
    "half_width",
    "status",
    "outside",
    "violated",
];

impl TimelineSpec {
    /// Returns the table in the daemon's configuration for this timeline, whose name is `name`.
    ///
    /// # Errors
    /// Fails if a source cannot be expressed in TOML.
    pub fn to_table(&self, name: &str) -> Result<toml::Table, toml::ser::Error> {
        let text = |length: Duration| toml::Value::from(length.to_string());
        let ppb = self.oscillator_error.as_ppt().div_euclid(1000) + 1;
        let mut table = toml::Table::from_iter([
            ("name".to_owned(), name.into()),
            ("scale".to_owned(), toml::Value::try_from(self.scale)?),
            (
                "oscillator".to_owned(),
                toml::Table::from_iter([("max_error_ppb".to_owned(), ppb.into())]).into(),
            ),
            (
                "poll".to_owned(),
                toml::Table::from_iter([
                    ("shortest".to_owned(), text(self.poll_shortest)),
                    ("longest".to_owned(), text(self.poll_longest)),
                ])
                .into(),
            ),
            ("fresh_for".to_owned(), text(self.fresh_for)),
            ("time_to_live".to_owned(), text(self.time_to_live)),
            ("alive_for".to_owned(), text(self.alive_for)),
            (
                "demand_authentication".to_owned(),
                self.demand_authentication.into(),
            ),
            ("source".to_owned(), toml::Value::try_from(&self.sources)?),
        ]);
        let given = [
            (
                "tai_offset_s",
                self.tai_offset_s.map(|s| toml::Value::from(i64::from(s))),
            ),
            ("accuracy", self.accuracy.map(text)),
            (
                "tolerated_liars",
                self.tolerated_liars.map(|n| i64::from(n).into()),
            ),
            ("listen", self.listen.clone().map(toml::Value::from)),
        ];
        for (key, value) in given {
            if let Some(value) = value {
                table.insert(key.to_owned(), value);
            }
        }
        Ok(table)
    }
}

impl Read for TimelineSpec {
    const NOUN: &'static str = "a timeline";

    fn read_table(fields: &mut Fields<'_>) -> Self {
        Self {
            scale: fields.or_default("scale"),
            tai_offset_s: fields.optional("tai_offset_s"),
            accuracy: fields.optional("accuracy"),
            oscillator_error: fields.or("oscillator_error", hundred_ppm()),
            poll_shortest: fields.or("poll_shortest", shortest_poll()),
            poll_longest: fields.or("poll_longest", longest_poll()),
            fresh_for: fields.or("fresh_for", fresh()),
            time_to_live: fields.or("time_to_live", to_live()),
            alive_for: fields.or("alive_for", alive()),
            tolerated_liars: fields.optional("tolerated_liars"),
            demand_authentication: fields.or("demand_authentication", false),
            listen: fields.optional("listen"),
            sources: fields.required("sources"),
            every: fields.or("every", every_second()),
            essential: fields.or("essential", true),
        }
    }
}

fn hundred_ppm() -> RateError {
    RateError::from_ppb(100_000)
}
fn shortest_poll() -> Duration {
    Duration::from_ms(125)
}
fn longest_poll() -> Duration {
    Duration::from_s(64)
}
fn fresh() -> Duration {
    Duration::from_s(16)
}
fn to_live() -> Duration {
    Duration::from_s(1000)
}
fn alive() -> Duration {
    Duration::from_s(5)
}
fn every_second() -> Duration {
    Duration::from_s(1)
}
fn yes() -> bool {
    true
}
