//! Configuration of a daemon: TOML, or the same keys as flags.

mod source;

use core::str::FromStr;
use std::path::PathBuf;

use serde::Deserialize;
use serde::de::Deserializer;
use timeloom_clock::RateError;
use timeloom_clock::oscillator::{OscillatorSpec, Stability};
use timeloom_clock::quality::TimelineId;
use timeloom_clock::timeline::{Config, PollLimits};
use timeloom_time::Duration;

use crate::outputs;
use timeloom_timeline::protocol::TimelineName;
use timeloom_timeline::protocol::TimelineScale;
use timeloom_timeline::{SharedKey, SharedKeyError};

pub use source::{
    ChronyConfig, PathConfig, PeerSourceConfig, PhcConfig, Ptp4lConfig, PtpConfig, Shows,
    SimulatedConfig, SourceConfig, SystemClockConfig,
};

/// Configuration of a daemon.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DaemonConfig {
    /// Directory in which programs find the daemon; by default that of
    /// [`timeloom_timeline::protocol::Directory::usual`].
    pub directory: Option<PathBuf>,
    /// The timelines.
    #[serde(rename = "timeline")]
    pub timelines: Vec<TimelineConfig>,
}

/// Configuration of a timeline.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TimelineConfig {
    /// Name of the timeline.
    pub name: TimelineName,
    /// Id as 32 hexadecimal digits; by default the hash of the name.
    #[serde(default, deserialize_with = "id")]
    pub id: Option<TimelineId>,
    /// Time scale of the timeline: TAI or a local one.
    #[serde(default)]
    pub scale: TimelineScale,
    /// TAI minus UTC in seconds, for sources that state UTC but not this offset.
    #[serde(default)]
    pub tai_offset_s: Option<i16>,
    /// Limits of the machine's oscillator.
    #[serde(default)]
    pub oscillator: OscillatorConfig,
    /// Limits of the interval between requests to a source.
    #[serde(default)]
    pub poll: PollConfig,
    /// Maximum distance of either end of the interval from the estimate. The daemon meets this
    /// requirement even if no program binds.
    #[serde(default, deserialize_with = "some_length")]
    pub accuracy: Option<Duration>,
    /// Time after an answer for which the timeline is `ok`, at least.
    #[serde(default = "sixteen_seconds", deserialize_with = "length")]
    pub fresh_for: Duration,
    /// Longest time after an answer for which the timeline still has an interval.
    #[serde(default = "thousand_seconds", deserialize_with = "length")]
    pub time_to_live: Duration,
    /// Time without an update of the page after which readers consider the daemon dead.
    #[serde(default = "five_seconds", deserialize_with = "length")]
    pub alive_for: Duration,
    /// Time after which an idle connection without a binding is closed.
    #[serde(default = "minute", deserialize_with = "length")]
    pub idle_for: Duration,
    /// Number of sources whose true error may exceed the error that they state; by default a
    /// minority.
    #[serde(default)]
    pub tolerated_liars: Option<usize>,
    /// True if answers must be authenticated.
    #[serde(default)]
    pub demand_authentication: bool,
    /// Address at which the daemon answers peers on other hosts (HOST:PORT, UDP).
    #[serde(default)]
    pub listen: Option<String>,
    /// File with a secret of at least 16 bytes that all peers share. Without the secret a peer gets
    /// no answer, and its own answers are discarded.
    #[serde(default)]
    pub key_file: Option<PathBuf>,
    /// Path of a ClockBound segment that the daemon writes.
    #[serde(default)]
    pub clockbound: Option<PathBuf>,
    /// Version of the ClockBound segment: 2 or 3.
    #[serde(default = "three")]
    pub clockbound_version: u8,
    /// Path of the socket of chronyd's SOCK reference clock, to which the daemon sends samples.
    #[serde(default)]
    pub chrony_sock: Option<PathBuf>,
    /// Unit number of the NTP shared memory to which the daemon writes samples.
    #[serde(default)]
    pub ntp_shm: Option<u16>,
    /// File to which changes of status are appended, one JSON object a line.
    #[serde(default)]
    pub journal: Option<PathBuf>,
    /// Sources of time.
    #[serde(default, rename = "source")]
    pub sources: Vec<SourceConfig>,
}

/// Limits of the machine's oscillator. If both optional values are given, the daemon may predict
/// the present frequency from the past.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct OscillatorConfig {
    /// Maximum deviation from the nominal frequency, in parts per 10^9.
    pub max_error_ppb: i64,
    /// Maximum of the rapidly varying part of the deviation, in parts per 10^9.
    #[serde(default)]
    pub jitter_ppb: Option<i64>,
    /// Maximum change of the slowly varying part of the deviation within a second, in parts per
    /// 10^12.
    #[serde(default)]
    pub wander_ppt_per_s: Option<i64>,
}

/// Limits of the interval between requests to a source.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct PollConfig {
    /// Shortest interval, even if a binding requires more accuracy.
    #[serde(deserialize_with = "length")]
    pub shortest: Duration,
    /// Longest interval, even if there is no binding.
    #[serde(deserialize_with = "length")]
    pub longest: Duration,
}

/// Text that says why a configuration is refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct BadConfig(pub String);

impl DaemonConfig {
    /// Checks that the values are valid together.
    ///
    /// # Errors
    /// Returns the first mistake found.
    pub fn check(&self) -> Result<(), BadConfig> {
        if self.timelines.is_empty() {
            return Err(BadConfig("there is no timeline: add a [[timeline]]".into()));
        }
        for (index, timeline) in self.timelines.iter().enumerate() {
            let name = &timeline.name;
            let bad = |what: &str| Err(BadConfig(format!("timeline {name}: {what}")));
            if self.timelines[..index]
                .iter()
                .any(|other| other.name == *name)
            {
                return bad("two timelines have this name");
            }
            let lengths = [
                timeline.fresh_for,
                timeline.time_to_live,
                timeline.alive_for,
                timeline.idle_for,
                timeline.poll.shortest,
                timeline.poll.longest,
            ];
            if lengths.iter().any(|length| *length <= Duration::ZERO) {
                return bad(
                    "fresh_for, time_to_live, alive_for, idle_for and poll must be positive",
                );
            }
            if timeline
                .accuracy
                .is_some_and(|accuracy| accuracy <= Duration::ZERO)
            {
                return bad("accuracy must be positive");
            }
            if timeline.poll.shortest > timeline.poll.longest {
                return bad("poll.shortest is longer than poll.longest");
            }
            let stated = timeline.oscillator;
            if !(1..=10_000_000).contains(&stated.max_error_ppb) {
                return bad("oscillator.max_error_ppb must be 1 to 10000000 (1 %)");
            }
            if stated.jitter_ppb.is_some() != stated.wander_ppt_per_s.is_some() {
                return bad(
                    "oscillator.jitter_ppb and wander_ppt_per_s have an effect only together: set \
                     both, or neither",
                );
            }
            if stated.jitter_ppb.unwrap_or(0) < 0 || stated.wander_ppt_per_s.unwrap_or(0) < 0 {
                return bad("oscillator.jitter_ppb and wander_ppt_per_s must not be negative");
            }
            for source in &timeline.sources {
                source.check(stated).or_else(bad)?;
            }
            if timeline.sources.is_empty() {
                return bad("there is no source: add a [[timeline.source]]");
            }
            if timeline
                .tolerated_liars
                .is_some_and(|liars| liars >= timeline.sources.len())
            {
                return bad("tolerated_liars must be less than the number of sources");
            }
            outputs::check(timeline, &self.timelines[..index])
                .or_else(|mistake| bad(&mistake.to_string()))?;
        }
        Ok(())
    }
}

impl FromStr for DaemonConfig {
    type Err = BadConfig;

    fn from_str(text: &str) -> Result<Self, BadConfig> {
        let config: Self = toml::from_str(text).map_err(|error| BadConfig(error.to_string()))?;
        config.check()?;
        Ok(config)
    }
}

impl TimelineConfig {
    /// Creates a timeline with all defaults.
    pub fn new(name: TimelineName) -> Self {
        Self {
            name,
            id: None,
            scale: TimelineScale::Tai,
            tai_offset_s: None,
            oscillator: OscillatorConfig::default(),
            poll: PollConfig::default(),
            accuracy: None,
            fresh_for: sixteen_seconds(),
            time_to_live: thousand_seconds(),
            alive_for: five_seconds(),
            idle_for: minute(),
            tolerated_liars: None,
            demand_authentication: false,
            listen: None,
            key_file: None,
            clockbound: None,
            clockbound_version: three(),
            chrony_sock: None,
            ntp_shm: None,
            journal: None,
            sources: Vec::new(),
        }
    }

    /// Returns the configured id, or the hash of the name.
    pub fn timeline(&self) -> TimelineId {
        self.id.unwrap_or_else(|| self.name.id())
    }

    /// Reads the secret shared by peers, if one is configured.
    pub(crate) fn key(&self) -> Result<Option<SharedKey>, SharedKeyError> {
        self.key_file.as_deref().map(SharedKey::read).transpose()
    }

    /// Returns the configured limits of the machine's oscillator.
    pub fn oscillator(&self) -> OscillatorSpec {
        let stated = self.oscillator;
        OscillatorSpec {
            max_error: RateError::from_ppb(stated.max_error_ppb),
            stability: stated.jitter_ppb.zip(stated.wander_ppt_per_s).map(
                |(jitter_ppb, wander_ppt)| Stability {
                    jitter: RateError::from_ppb(jitter_ppb),
                    wander_per_second: RateError::from_ppt(wander_ppt),
                },
            ),
        }
    }

    /// Returns the configuration of the timeline's estimator, for a core clock whose oscillator is
    /// `oscillator`.
    pub fn estimator(&self, oscillator: OscillatorSpec) -> Config {
        let mut config = Config::new(self.timeline(), oscillator, self.sources.len());
        config.tolerated_liars = self.tolerated_liars.unwrap_or(config.tolerated_liars);
        Config {
            demand_authentication: self.demand_authentication,
            poll: PollLimits {
                shortest: self.poll.shortest,
                longest: self.poll.longest,
            },
            fresh_for: self.fresh_for,
            time_to_live: self.time_to_live,
            alive_for: self.alive_for,
            ..config
        }
    }
}

impl Default for OscillatorConfig {
    /// Returns 100 ppm without a known stability: the error of an oscillator plus the calibration
    /// of the counter's rate.
    fn default() -> Self {
        Self {
            max_error_ppb: 100_000,
            jitter_ppb: None,
            wander_ppt_per_s: None,
        }
    }
}

impl Default for PollConfig {
    /// Returns 125 ms and 64 s.
    fn default() -> Self {
        Self {
            shortest: Duration::from_ms(125),
            longest: Duration::from_s(64),
        }
    }
}

fn three() -> u8 {
    3
}

fn sixteen_seconds() -> Duration {
    Duration::from_s(16)
}

fn thousand_seconds() -> Duration {
    Duration::from_s(1000)
}

fn five_seconds() -> Duration {
    Duration::from_s(5)
}

fn minute() -> Duration {
    Duration::from_s(60)
}

fn length<'de, D: Deserializer<'de>>(from: D) -> Result<Duration, D::Error> {
    let text = String::deserialize(from)?;
    text.parse().map_err(serde::de::Error::custom)
}

fn some_length<'de, D: Deserializer<'de>>(from: D) -> Result<Option<Duration>, D::Error> {
    length(from).map(Some)
}

fn id<'de, D: Deserializer<'de>>(from: D) -> Result<Option<TimelineId>, D::Error> {
    let text = String::deserialize(from)?;
    let wrong = || serde::de::Error::custom("an id must be 32 hexadecimal digits");
    if text.len() != 32 {
        return Err(wrong());
    }
    let number = u128::from_str_radix(&text, 16).map_err(|_| wrong())?;
    Ok(Some(TimelineId(number)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_and_flags_give_the_same_source() {
        let config: DaemonConfig = r#"
            [[timeline]]
            name = "plant"
            time_to_live = "60 s"
            oscillator = { max_error_ppb = 50000, jitter_ppb = 10, wander_ppt_per_s = 500 }
            [[timeline.source]]
            type = "system-clock"
            vouched_error = "100 us"
        "#
        .parse()
        .unwrap();
        let timeline = &config.timelines[0];
        assert_eq!(timeline.time_to_live, Duration::from_s(60));
        assert_eq!(timeline.timeline(), timeline.name.id());
        assert!(timeline.oscillator().stability.is_some());
        let flag = "system-clock,vouched_error=100 us"
            .parse::<SourceConfig>()
            .unwrap();
        assert_eq!(timeline.sources, [flag]);
    }

    #[test]
    fn mistakes_are_told() {
        let mistake = |text: &str| text.parse::<DaemonConfig>().unwrap_err().0;
        let source = "[[timeline.source]]\ntype = \"system-clock\"\n";
        let timeline = |keys: &str| format!("[[timeline]]\nname = \"a\"\n{keys}\n{source}");
        assert!(timeline("").parse::<DaemonConfig>().is_ok());
        assert!(mistake("timeline = []").contains("no timeline"));
        assert!(mistake("[[timeline]]\nname = \"a\"").contains("no source"));
        assert!(mistake(&timeline("ttl = 3")).contains("ttl"));
        assert!(mistake(&timeline("time_to_live = \"3\"")).contains("unit"));
        assert!(mistake(&timeline("time_to_live = \"0 s\"")).contains("positive"));
        assert!(mistake(&timeline("id = \"12\"")).contains("32"));
        assert!(mistake(&timeline("tolerated_liars = 1")).contains("less than"));
        assert!(mistake(&(timeline("") + &timeline(""))).contains("have this name"));
        assert!(
            "sundial"
                .parse::<SourceConfig>()
                .unwrap_err()
                .0
                .contains("sundial")
        );
    }
}
