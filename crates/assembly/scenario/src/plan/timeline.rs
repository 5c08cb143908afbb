//! A timeline of a host: a clock that says how wrong it may be, kept by a daemon that
//! is a program of the host and knows no more than it.

use schemars::JsonSchema;
use serde::Serialize;
use timeloom_time::Duration;

use crate::read::{Fields, Read};
use crate::words::{self, FrequencyError};

/// A timeline that a host keeps from its sources, by its own crystal. The run knows
/// true time and records how far the timeline is from it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, JsonSchema)]
#[schemars(deny_unknown_fields, rename = "HostTimeline")]
pub struct TimelineSpec {
    /// What its nanoseconds count: `tai`, or `local` for what the sources show.
    #[schemars(default)]
    pub scale: TimelineScale,
    /// How far TAI is ahead of UTC, for sources that tell UTC and not this.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tai_offset_s: Option<u16>,
    /// How far the interval may reach to either side: the daemon asks its sources as
    /// often as that takes, and the run records when it is not met.
    #[serde(
        serialize_with = "words::as_optional_text",
        skip_serializing_if = "Option::is_none"
    )]
    #[schemars(with = "Option<words::DurationText>")]
    pub accuracy: Option<Duration>,
    /// What the host's crystal promises: never further from nominal than this.
    #[schemars(default = "hundred_ppm")]
    pub oscillator_error: FrequencyError,
    /// A source is never asked more often than this.
    #[serde(serialize_with = "words::as_text")]
    #[schemars(default = "shortest_poll", with = "words::DurationText")]
    pub poll_shortest: Duration,
    /// Nor less often.
    #[serde(serialize_with = "words::as_text")]
    #[schemars(default = "longest_poll", with = "words::DurationText")]
    pub poll_longest: Duration,
    /// How long an answer keeps the timeline `ok`, at least.
    #[serde(serialize_with = "words::as_text")]
    #[schemars(default = "fresh", with = "words::DurationText")]
    pub fresh_for: Duration,
    /// How long an answer keeps the timeline at all.
    #[serde(serialize_with = "words::as_text")]
    #[schemars(default = "to_live", with = "words::DurationText")]
    pub time_to_live: Duration,
    /// How long the daemon may be silent before readers call it dead.
    #[serde(serialize_with = "words::as_text")]
    #[schemars(default = "alive", with = "words::DurationText")]
    pub alive_for: Duration,
    /// How many sources may err by more than they state; a minority without.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tolerated_liars: Option<u16>,
    /// Whether answers must prove where they come from.
    #[schemars(default)]
    pub demand_authentication: bool,
    /// Where daemons on other hosts are answered, as in `0.0.0.0:8319` (UDP).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub listen: Option<String>,
    /// What knows the time: tables as in docs/timeline.md.
    #[schemars(length(min = 1))]
    pub sources: Vec<serde_json::Map<String, serde_json::Value>>,
    /// How often the run compares it with true time.
    #[serde(serialize_with = "words::as_text")]
    #[schemars(default = "every_second", with = "words::DurationText")]
    pub every: Duration,
    /// Whether the end of the daemon that keeps it fails the run. One daemon keeps all
    /// of a host's; it may end only where all of them say so.
    #[schemars(default = "yes")]
    pub essential: bool,
}

/// What the nanoseconds of a timeline count.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum TimelineScale {
    /// TAI since 1970.
    #[default]
    Tai,
    /// What the sources show; true is then true civil time.
    Local,
}

/// What is recorded of a timeline TL, as `HOST.timeline.TL.NAME`: estimate, earliest
/// and latest less true time, and half of the interval, in seconds; the status by its
/// number on the page; and, as 0 or 1, whether true time lies outside of the interval,
/// and whether `accuracy` is not met.
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
    /// The table of the daemon's configuration for it, by the name `name`.
    ///
    /// # Errors
    /// A source that TOML cannot say.
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

fn hundred_ppm() -> FrequencyError {
    FrequencyError::from_ppt(100_000_000)
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
