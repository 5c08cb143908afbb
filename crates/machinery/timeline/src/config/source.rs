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
    /// `timeloom ptp slave` on this machine.
    Ptp(PtpConfig),
    /// linuxptp's slave on this machine.
    Ptp4l(Ptp4lConfig),
    /// chronyd on this machine.
    Chrony(ChronyConfig),
    /// A ClockBound segment, version 2 or 3.
    #[serde(rename = "clockbound")]
    ClockBound(PathConfig),
    /// A vmclock page that states its error.
    Vmclock(PathConfig),
    /// A network card's clock.
    Phc(PhcConfig),
    /// The page of another timeline of this machine.
    Timeline(PathConfig),
    /// The daemon of the same timeline on another host.
    Peer(PeerConfig),
    /// A simulated reference.
    Simulated(SimulatedConfig),
}

/// chronyd on this machine; it may steer the system clock or not.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct ChronyConfig {
    /// Command socket: HOST:PORT for UDP, or a path.
    pub address: String,
    /// Maximum drift of the clock that chronyd disciplines between its updates, in parts per 10^9;
    /// by default the oscillator's whole error.
    pub drift_ppb: Option<i64>,
}

impl Default for ChronyConfig {
    /// UDP port 323, chronyd's default.
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

/// Clock of a network card, which another program synchronises.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PhcConfig {
    /// Device: `/dev/ptp0`, or another.
    pub device: PathBuf,
    /// Maximum error. The card cannot report it, so this value is trusted.
    #[serde(deserialize_with = "length")]
    pub vouched_error: Duration,
    /// Scale of the seconds.
    #[serde(default = "tai")]
    pub shows: Shows,
}

/// Daemon of the same timeline on another host.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PeerConfig {
    /// Address (HOST:PORT) of the peer: its timeline's `listen`.
    pub address: String,
}

/// Simulated reference: a line over this machine's own counter, read over a simulated path.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct SimulatedConfig {
    /// Time when the core clock is 0.
    #[serde(deserialize_with = "length")]
    pub offset: Duration,
    /// Rate against the core clock, less one, in parts per 10^9.
    pub rate_ppb: i64,
    /// Minimum delay of a request.
    #[serde(deserialize_with = "length")]
    pub delay_up: Duration,
    /// Minimum delay of an answer.
    #[serde(deserialize_with = "length")]
    pub delay_down: Duration,
    /// Maximum queueing delay each way; mostly it is much less.
    #[serde(deserialize_with = "length")]
    pub jitter: Duration,
    /// Probability that an answer is lost.
    pub loss: f64,
    /// Error that the reference states and may have.
    #[serde(deserialize_with = "length")]
    pub stated_error: Duration,
    /// Additional error, beyond the stated one.
    #[serde(deserialize_with = "length")]
    pub lie: Duration,
    /// True if its answers count as authenticated.
    pub authenticated: bool,
    /// Seed of all random values.
    pub seed: u64,
}

/// linuxptp's slave on this machine, with software timestamps.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Ptp4lConfig {
    /// Path that `ptp4l` has as `slave_event_monitor`: a socket that this daemon creates.
    pub monitor: PathBuf,
    /// Path that `ptp4l` has as `uds_address`.
    #[serde(default = "ptp4l_socket")]
    pub socket: PathBuf,
    /// PTP domain.
    #[serde(default)]
    pub domain: u8,
    /// Scale of the master's seconds, if it does not state that they are TAI.
    #[serde(default)]
    pub shows: Option<Shows>,
    /// Maximum error of the grandmaster; by default its own statement.
    #[serde(default, deserialize_with = "optional_length")]
    pub reference_error: Option<Duration>,
    /// Maximum error added by each boundary clock between the grandmaster and this host. Required
    /// if there are such clocks.
    #[serde(default, deserialize_with = "optional_length")]
    pub hop_error: Option<Duration>,
    /// Maximum error of transparent clocks and timestamping on the path.
    #[serde(default, deserialize_with = "length")]
    pub path_error: Duration,
}

/// `timeloom ptp slave --feed` on this machine. Only Syncs that it accepted, with every signature
/// checked, are used.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PtpConfig {
    /// Path of the slave's `--feed`: a socket that this daemon creates, for its own user.
    pub feed: PathBuf,
    /// Scale of the grandmaster's seconds; required unless the timeline is local.
    #[serde(default)]
    pub shows: Option<Shows>,
    /// Maximum error of the grandmaster. This value is trusted.
    #[serde(default, deserialize_with = "length")]
    pub reference_error: Duration,
    /// Maximum difference of the delay this way from the mean of both, over all links together; by
    /// default the whole of link delay and correction.
    #[serde(default, deserialize_with = "optional_length")]
    pub asymmetry: Option<Duration>,
    /// Maximum difference of one Sync's delay from the measured one, plus the error of timestamps;
    /// by default the slave's `--jump-bound`.
    #[serde(default, deserialize_with = "optional_length")]
    pub stamp_error: Option<Duration>,
}

/// Scale of a clock's seconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Shows {
    /// TAI.
    Tai,
    /// UTC, without leap seconds.
    Utc,
}

/// CLOCK_REALTIME with the kernel's bound of its error.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct SystemClockConfig {
    /// Maximum error of the clock, whatever the kernel states: `0 ns` if this clock *is* the
    /// reference. This value is trusted.
    #[serde(deserialize_with = "optional_length")]
    pub vouched_error: Option<Duration>,
}

impl FromStr for SourceConfig {
    type Err = BadConfig;

    /// Parses `TYPE[,KEY=VALUE]…`, with the keys of the file.
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
    /// Returns true if the source is read by the system clock, so that its earlier answers are
    /// invalid when that is set.
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

    /// Returns the `type`, and the value that distinguishes it from others of its type.
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

    /// Checks the combination of values; `oscillator` is that of the timeline.
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
