//! Timelines of hosts: clocks with error bounds. A daemon keeps them, which runs as a program of
//! the host and has no more information than the host's other programs.

use timeloom_clock::RateError;
use timeloom_time::Duration;
use timeloom_timeline::protocol::TimelineScale;

use crate::table::{NotEmpty, table};

table! {
/// Timeline that a host derives from its sources and its own oscillator. The run, which knows true
/// time, records the timeline's deviation from it.
#[noun = "a timeline"]
#[schema = "HostTimeline"]
pub struct TimelineSpec {
    /// Time scale: `tai`, or `local` for the scale of the sources.
    pub scale: TimelineScale = TimelineScale::default(),
    /// TAI minus UTC in seconds, for sources that provide UTC without this offset.
    pub tai_offset_s: Option<u16>,
    /// Maximum half-width of the interval. The daemon polls its sources as often as this requires,
    /// and the run records violations.
    pub accuracy: Option<Duration>,
    /// Maximum frequency error of the host's oscillator.
    pub oscillator_error: RateError = RateError::from_ppb(100_000),
    /// Minimum interval between two polls of a source.
    pub poll_shortest: Duration = Duration::from_ms(125),
    /// Maximum interval between two polls of a source.
    pub poll_longest: Duration = Duration::from_s(64),
    /// Minimum time for which an answer of a source keeps the timeline in status `ok`.
    pub fresh_for: Duration = Duration::from_s(16),
    /// Time after which an answer of a source is not used any more.
    pub time_to_live: Duration = Duration::from_s(1000),
    /// Time without an update after which readers consider the daemon dead.
    pub alive_for: Duration = Duration::from_s(5),
    /// Number of sources that may err by more than they state. If left out, a minority of them.
    pub tolerated_liars: Option<u16>,
    /// Accepts only authenticated answers of sources.
    pub demand_authentication: bool = false,
    /// UDP address at which daemons of other hosts are answered, such as `0.0.0.0:8319`.
    pub listen: Option<String>,
    /// Sources of time, as tables that docs/timeline.md describes.
    #[within(NotEmpty)]
    pub sources: Vec<serde_json::Map<String, serde_json::Value>>,
    /// Virtual interval at which the run compares the timeline with true time.
    pub every: Duration = Duration::from_s(1),
    /// If true, the run fails when the daemon ends. A daemon keeps all timelines of a host, so its
    /// end is tolerated only if this is false for all of them.
    pub essential: bool = true,
}
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
