//! What a daemon is told: TOML, or the same keys as flags.

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
use crate::source::peer_words::{Key, KeyError};
use timeloom_timeline_protocol::ScaleName;
use timeloom_timeline_protocol::TimelineName;

pub use source::{
    ChronyConfig, PathConfig, PeerConfig, PhcConfig, Ptp4lConfig, PtpConfig, Shows,
    SimulatedConfig, SourceConfig, SystemClockConfig,
};

/// A daemon's configuration.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DaemonConfig {
    /// Where daemon and programs meet; the usual place without.
    pub directory: Option<PathBuf>,
    /// The timelines.
    #[serde(rename = "timeline")]
    pub timelines: Vec<TimelineConfig>,
}

/// One timeline's configuration.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TimelineConfig {
    /// Its name.
    pub name: TimelineName,
    /// Its id as 32 hexadecimal digits; that of the name without.
    #[serde(default, deserialize_with = "id")]
    pub id: Option<TimelineId>,
    /// What its nanoseconds count.
    #[serde(default)]
    pub scale: ScaleName,
    /// How far TAI is ahead of UTC, for sources that tell UTC and not this.
    #[serde(default)]
    pub tai_offset_s: Option<i16>,
    /// What the machine's oscillator promises.
    #[serde(default)]
    pub oscillator: OscillatorConfig,
    /// How often a source is asked.
    #[serde(default)]
    pub poll: PollConfig,
    /// How far the interval may reach to either side: a requirement that stands
    /// without a program that binds.
    #[serde(default, deserialize_with = "some_length")]
    pub accuracy: Option<Duration>,
    /// How long an answer keeps the timeline `ok`, at least.
    #[serde(default = "sixteen_seconds", deserialize_with = "length")]
    pub fresh_for: Duration,
    /// How long an answer keeps the timeline at all.
    #[serde(default = "thousand_seconds", deserialize_with = "length")]
    pub time_to_live: Duration,
    /// How long the daemon may be silent before readers call it dead.
    #[serde(default = "five_seconds", deserialize_with = "length")]
    pub alive_for: Duration,
    /// How long a program may be connected without a binding and say nothing.
    #[serde(default = "minute", deserialize_with = "length")]
    pub idle_for: Duration,
    /// How many sources may err by more than they state; a minority without.
    #[serde(default)]
    pub tolerated_liars: Option<usize>,
    /// Whether answers must prove where they come from.
    #[serde(default)]
    pub demand_authentication: bool,
    /// Answer peers on other hosts here (HOST:PORT, UDP).
    #[serde(default)]
    pub listen: Option<String>,
    /// A secret of 16 bytes at least that all peers share: then no other is
    /// asked, answered or believed.
    #[serde(default)]
    pub key_file: Option<PathBuf>,
    /// A segment for ClockBound's readers.
    #[serde(default)]
    pub clockbound: Option<PathBuf>,
    /// Which version it has: 2 or 3.
    #[serde(default = "three")]
    pub clockbound_version: u8,
    /// Samples go to chronyd's SOCK reference clock here.
    #[serde(default)]
    pub chrony_sock: Option<PathBuf>,
    /// Samples lie in this unit of NTP's shared memory.
    #[serde(default)]
    pub ntp_shm: Option<u16>,
    /// File to which changes of status are appended, one JSON object a line.
    #[serde(default)]
    pub journal: Option<PathBuf>,
    /// What knows the time.
    #[serde(default, rename = "source")]
    pub sources: Vec<SourceConfig>,
}

/// What the machine's oscillator promises. With the two optional figures the
/// daemon may conclude from the past how fast it runs now.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct OscillatorConfig {
    /// Never further from nominal than this, in parts per 10^9.
    pub max_error_ppb: i64,
    /// The fast part of its error is never more than this.
    #[serde(default)]
    pub jitter_ppb: Option<i64>,
    /// The slow part changes by at most this within a second, in parts per 10^12.
    #[serde(default)]
    pub wander_ppt_per_s: Option<i64>,
}

/// How often a source is asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct PollConfig {
    /// Never more often than this, however tight a binding is.
    #[serde(deserialize_with = "length")]
    pub shortest: Duration,
    /// Never less often than this, even without any binding.
    #[serde(deserialize_with = "length")]
    pub longest: Duration,
}

/// Why a configuration is refused; for people.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct BadConfig(pub String);

impl DaemonConfig {
    /// Checks what no single value shows.
    ///
    /// # Errors
    /// The first mistake.
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
                return bad("there are two of this name");
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
                    "oscillator.jitter_ppb and wander_ppt_per_s say something together only",
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
    /// A timeline with all defaults.
    pub fn new(name: TimelineName) -> Self {
        Self {
            name,
            id: None,
            scale: ScaleName::Tai,
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

    /// Its id.
    pub fn timeline(&self) -> TimelineId {
        self.id.unwrap_or_else(|| self.name.id())
    }

    /// What peers share, if they do.
    pub(crate) fn key(&self) -> Result<Option<Key>, KeyError> {
        self.key_file.as_deref().map(Key::read).transpose()
    }

    /// What the oscillator promises.
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

    /// For the keeper, on a clock of which the oscillator is `oscillator`.
    pub fn keeper(&self, oscillator: OscillatorSpec) -> Config {
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
    /// 100 ppm: a crystal and the calibration of the counter's rate.
    fn default() -> Self {
        Self {
            max_error_ppb: 100_000,
            jitter_ppb: None,
            wander_ppt_per_s: None,
        }
    }
}

impl Default for PollConfig {
    /// Every 125 ms … 64 s.
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
    let wrong = || serde::de::Error::custom("an id is 32 hexadecimal digits");
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
    fn a_file_says_what_flags_say() {
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
        assert!(mistake(&(timeline("") + &timeline(""))).contains("two of this name"));
        assert!(
            "sundial"
                .parse::<SourceConfig>()
                .unwrap_err()
                .0
                .contains("sundial")
        );
    }
}
