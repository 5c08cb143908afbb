//! Sources of time: their `type` and keys.

use core::str::FromStr;
use std::path::PathBuf;

use serde::Deserialize;
use serde::de::Deserializer;
use timeloom_time::Duration;

use super::{BadConfig, OscillatorConfig, length};

/// Source, by its `type`.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(tag = "type", rename_all = "kebab-case")]
pub enum SourceConfig {
    /// CLOCK_REALTIME.
    SystemClock(SystemClockConfig),
    /// Slave `timeloom ptp slave` on this machine.
    Ptp(PtpConfig),
    /// Slave of linuxptp (`ptp4l`) on this machine.
    Ptp4l(Ptp4lConfig),
    /// Daemon `chronyd` on this machine.
    Chrony(ChronyConfig),
    /// ClockBound segment of another daemon, version 2 or 3.
    #[serde(rename = "clockbound")]
    ClockBound(PathConfig),
    /// Page `vmclock` of a hypervisor that states its error.
    Vmclock(PathConfig),
    /// Hardware clock (PHC) of a network card.
    Phc(PhcConfig),
    /// Page of another timeline on this machine.
    Timeline(PathConfig),
    /// Daemon of the same timeline on another host.
    Peer(PeerSourceConfig),
    /// Simulated reference.
    Simulated(SimulatedConfig),
}

/// chronyd on this machine. It may steer the system clock, but need not.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct ChronyConfig {
    /// Address of the command socket: HOST:PORT for UDP, or the path of a Unix socket.
    pub address: String,
    /// Maximum drift, between two updates of chronyd, of the clock that it disciplines, in parts
    /// per 10^9; by default the oscillator's `max_error_ppb`.
    pub drift_ppb: Option<i64>,
}

impl Default for ChronyConfig {
    /// Returns UDP port 323 on this machine, chronyd's default.
    fn default() -> Self {
        Self {
            address: "127.0.0.1:323".into(),
            drift_ppb: None,
        }
    }
}

/// Page that another daemon publishes.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PathConfig {
    /// Path of the page.
    pub path: PathBuf,
}

/// Hardware clock of a network card that another program synchronises.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PhcConfig {
    /// Device file, such as `/dev/ptp0`.
    pub device: PathBuf,
    /// Maximum error of the card's clock. The card cannot report it, so the configured value is
    /// trusted.
    #[serde(deserialize_with = "length")]
    pub vouched_error: Duration,
    /// Time scale of the card's clock.
    #[serde(default = "tai")]
    pub shows: Shows,
}

/// Daemon of the same timeline on another host.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PeerSourceConfig {
    /// Address of the peer (HOST:PORT), which is the value of `listen` in the peer's configuration.
    pub address: String,
}

/// Simulated reference: a linear function of this machine's core clock, read over a simulated path.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct SimulatedConfig {
    /// Time of the reference when the core clock is 0.
    #[serde(deserialize_with = "length")]
    pub offset: Duration,
    /// Rate of the reference relative to the core clock, minus one, in parts per 10^9.
    pub rate_ppb: i64,
    /// Minimum delay of a request to the reference.
    #[serde(deserialize_with = "length")]
    pub delay_up: Duration,
    /// Minimum delay of an answer from the reference.
    #[serde(deserialize_with = "length")]
    pub delay_down: Duration,
    /// Maximum queueing delay in each direction. Most delays are much shorter.
    #[serde(deserialize_with = "length")]
    pub jitter: Duration,
    /// Probability that an answer is lost.
    pub loss: f64,
    /// Maximum error that the reference states. Its true error stays within it unless `lie` is set.
    #[serde(deserialize_with = "length")]
    pub stated_error: Duration,
    /// Error of the reference in addition to the stated one.
    #[serde(deserialize_with = "length")]
    pub lie: Duration,
    /// True if the reference's answers count as authenticated.
    pub authenticated: bool,
    /// Seed of all random values.
    pub seed: u64,
}

/// linuxptp's slave on this machine, with software timestamps.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Ptp4lConfig {
    /// Path of a socket that this daemon creates. It is the `slave_event_monitor` of `ptp4l`.
    pub monitor: PathBuf,
    /// Path of the management socket of `ptp4l`, its `uds_address`.
    #[serde(default = "ptp4l_socket")]
    pub socket: PathBuf,
    /// PTP domain number of `ptp4l`.
    #[serde(default)]
    pub domain: u8,
    /// Time scale of the master's clock, for a master that does not state that it is TAI.
    #[serde(default)]
    pub shows: Option<Shows>,
    /// Maximum error of the grandmaster; by default the accuracy that it announces.
    #[serde(default, deserialize_with = "optional_length")]
    pub reference_error: Option<Duration>,
    /// Maximum error that each boundary clock between the grandmaster and this host adds. The value
    /// is required if there are such clocks.
    #[serde(default, deserialize_with = "optional_length")]
    pub hop_error: Option<Duration>,
    /// Maximum error of transparent clocks and timestamping on the path, for all of them together.
    #[serde(default, deserialize_with = "length")]
    pub path_error: Duration,
}

/// Slave `timeloom ptp slave --feed` on this machine. The daemon uses only Sync messages that the
/// slave accepted and whose signatures were all checked.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PtpConfig {
    /// Path of a socket that this daemon creates for its own user. It is the `--feed` of the slave.
    pub feed: PathBuf,
    /// Time scale of the grandmaster's clock; required unless the timeline is local.
    #[serde(default)]
    pub shows: Option<Shows>,
    /// Maximum error of the grandmaster's clock. This value is trusted.
    #[serde(default, deserialize_with = "length")]
    pub reference_error: Duration,
    /// Maximum difference between the delay from the master to this host and the mean of both
    /// directions, for all links together; by default the sum of link delay and correction.
    #[serde(default, deserialize_with = "optional_length")]
    pub asymmetry: Option<Duration>,
    /// Maximum difference between the delay of one Sync and the measured delay, plus the error of
    /// the timestamps; by default the slave's `--jump-bound`.
    #[serde(default, deserialize_with = "optional_length")]
    pub stamp_error: Option<Duration>,
}

/// Time scale of a clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Shows {
    /// TAI.
    Tai,
    /// UTC, without leap seconds.
    Utc,
}

/// CLOCK_REALTIME, with the bound of its error that the kernel states.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct SystemClockConfig {
    /// Maximum error of the clock, which replaces the kernel's statement: `0 ns` if this clock *is*
    /// the reference. This value is trusted.
    #[serde(deserialize_with = "optional_length")]
    pub vouched_error: Option<Duration>,
}

impl FromStr for SourceConfig {
    type Err = BadConfig;

    /// Parses `TYPE[,KEY=VALUE]…`. The keys are those of the configuration file.
    fn from_str(text: &str) -> Result<Self, BadConfig> {
        let mut parts = text.split(',');
        let mut table = toml::Table::new();
        let kind = parts.next().unwrap_or_default();
        table.insert("type".into(), kind.into());
        for part in parts {
            let (key, value) = part.split_once('=').ok_or_else(|| {
                BadConfig(format!("source `{text}`: `{part}` should be KEY=VALUE"))
            })?;
            let typed = match (value.parse::<i64>(), value.parse::<f64>(), value) {
                (Ok(number), _, _) => number.into(),
                (_, Ok(number), _) => number.into(),
                (_, _, "true") => true.into(),
                (_, _, "false") => false.into(),
                _ => toml::Value::from(value),
            };
            table.insert(key.trim().into(), typed);
        }
        let parsed = table.try_into::<Self>();
        parsed.map_err(|error| BadConfig(format!("source `{text}`: {}", error.message())))
    }
}

impl SourceConfig {
    /// Returns true if the source is read through the system clock. When the system clock is set,
    /// earlier answers of such a source become invalid.
    pub fn hangs_on_system_clock(&self) -> bool {
        match self {
            Self::SystemClock(_)
            | Self::Chrony(_)
            | Self::Ptp(_)
            | Self::Ptp4l(_)
            | Self::ClockBound(_) => true,
            Self::Vmclock(_)
            | Self::Phc(_)
            | Self::Timeline(_)
            | Self::Peer(_)
            | Self::Simulated(_) => false,
        }
    }

    /// Returns the `type` together with the value (a path or an address) that distinguishes this
    /// source from others of its type.
    pub fn label(&self) -> String {
        match self {
            Self::SystemClock(_) => "system-clock".into(),
            Self::Chrony(chrony) => format!("chrony {}", chrony.address),
            Self::ClockBound(page) => format!("clockbound {}", page.path.display()),
            Self::Vmclock(page) => format!("vmclock {}", page.path.display()),
            Self::Phc(phc) => format!("phc {}", phc.device.display()),
            Self::Timeline(page) => format!("timeline {}", page.path.display()),
            Self::Peer(peer) => format!("peer {}", peer.address),
            Self::Simulated(_) => "simulated".into(),
            Self::Ptp(ptp) => format!("ptp {}", ptp.feed.display()),
            Self::Ptp4l(ptp4l) => format!("ptp4l {}", ptp4l.socket.display()),
        }
    }

    /// Checks that the values are valid together; `oscillator` is that of the timeline.
    pub(super) fn check(&self, oscillator: OscillatorConfig) -> Result<(), &'static str> {
        let fits = |length: &Duration| (Duration::ZERO..Duration::from_s(1000)).contains(length);
        match self {
            Self::Ptp(ptp) => {
                let stated = [ptp.asymmetry, ptp.stamp_error, Some(ptp.reference_error)];
                if !stated.iter().flatten().all(fits) {
                    return Err("a ptp source's errors must be within 0 … 1000 s");
                }
            }
            Self::Simulated(simulated) => {
                let lengths = [
                    simulated.delay_up,
                    simulated.delay_down,
                    simulated.jitter,
                    simulated.stated_error,
                ];
                if !lengths.iter().all(fits) || !(0.0..=1.0).contains(&simulated.loss) {
                    return Err(
                        "a simulated source's lengths and loss must be within 0 … 1000 s and 0 … 1",
                    );
                }
                if simulated.rate_ppb.abs() > oscillator.max_error_ppb {
                    return Err(
                        "a simulated source's rate_ppb is more than oscillator.max_error_ppb",
                    );
                }
            }
            _ => {}
        }
        Ok(())
    }
}

fn tai() -> Shows {
    Shows::Tai
}

fn ptp4l_socket() -> PathBuf {
    "/var/run/ptp4l".into()
}

fn optional_length<'de, D: Deserializer<'de>>(from: D) -> Result<Option<Duration>, D::Error> {
    length(from).map(Some)
}
