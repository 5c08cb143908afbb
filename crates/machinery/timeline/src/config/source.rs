//! What knows the time: a source's `type` and keys.

use core::str::FromStr;
use std::path::PathBuf;

use serde::Deserialize;
use serde::de::Deserializer;
use timeloom_time::Duration;

use super::{BadConfig, OscillatorConfig, length};

/// A source, by its `type`.
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
    /// A vmclock page that says how wrong it may be.
    Vmclock(PathConfig),
    /// A network card's clock.
    Phc(PhcConfig),
    /// The page of another timeline of this machine.
    Timeline(PathConfig),
    /// The daemon of the same timeline on another host.
    Peer(PeerConfig),
    /// A made-up reference.
    Simulated(SimulatedConfig),
}

/// chronyd on this machine; it may steer the system clock or not.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct ChronyConfig {
    /// Its command socket: HOST:PORT for UDP, or a path.
    pub address: String,
    /// How fast the clock that it disciplines may drift between its updates, in
    /// parts per 10^9; the oscillator's whole error without.
    pub drift_ppb: Option<i64>,
}

impl Default for ChronyConfig {
    /// UDP port 323, as chronyd has it.
    fn default() -> Self {
        Self {
            address: "127.0.0.1:323".into(),
            drift_ppb: None,
        }
    }
}

/// A page that another daemon publishes.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PathConfig {
    /// Where it lies.
    pub path: PathBuf,
}

/// A network card's clock, which somebody else keeps in step.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PhcConfig {
    /// `/dev/ptp0`, or another.
    pub device: PathBuf,
    /// How far it may be off. The card cannot tell: whoever writes this vouches.
    #[serde(deserialize_with = "length")]
    pub vouched_error: Duration,
    /// What its seconds count.
    #[serde(default = "tai")]
    pub shows: Shows,
}

/// The daemon of the same timeline on another host.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PeerConfig {
    /// HOST:PORT where it answers, its timeline's `listen`.
    pub address: String,
}

/// A made-up reference: a line over this machine's own counter, asked over a
/// made-up path.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct SimulatedConfig {
    /// What it shows when the core clock shows 0.
    #[serde(deserialize_with = "length")]
    pub offset: Duration,
    /// How fast it runs against the core clock, less one, in parts per 10^9.
    pub rate_ppb: i64,
    /// Least time of a question under way.
    #[serde(deserialize_with = "length")]
    pub delay_up: Duration,
    /// Least time of an answer under way.
    #[serde(deserialize_with = "length")]
    pub delay_down: Duration,
    /// Queues add up to this each way, mostly much less.
    #[serde(deserialize_with = "length")]
    pub jitter: Duration,
    /// Probability that an answer is lost.
    pub loss: f64,
    /// How wrong it says that it is, and may be.
    #[serde(deserialize_with = "length")]
    pub stated_error: Duration,
    /// How wrong it is beyond that.
    #[serde(deserialize_with = "length")]
    pub lie: Duration,
    /// Whether its answers count as proved.
    pub authenticated: bool,
    /// Of all that is random in it.
    pub seed: u64,
}

/// linuxptp's slave on this machine, with software time stamps.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Ptp4lConfig {
    /// What `ptp4l` has as `slave_event_monitor`: a socket that this daemon makes.
    pub monitor: PathBuf,
    /// What `ptp4l` has as `uds_address`.
    #[serde(default = "ptp4l_socket")]
    pub socket: PathBuf,
    /// The PTP domain.
    #[serde(default)]
    pub domain: u8,
    /// What the master's seconds count, when it does not say that they are TAI.
    #[serde(default)]
    pub shows: Option<Shows>,
    /// How far the grandmaster may be off; what it says itself without.
    #[serde(default, deserialize_with = "optional_length")]
    pub reference_error: Option<Duration>,
    /// How much every boundary clock in between may add.
    #[serde(default, deserialize_with = "optional_length")]
    pub hop_error: Option<Duration>,
    /// How much transparent clocks and time stamping on the path may add.
    #[serde(default, deserialize_with = "length")]
    pub path_error: Duration,
}

/// `timeloom ptp slave --feed` on this machine. Only Syncs that it accepted,
/// every signature checked, become time.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PtpConfig {
    /// The slave's `--feed`: a socket that this daemon makes, for its own user.
    pub feed: PathBuf,
    /// What the grandmaster's seconds count; needed unless the timeline is local.
    #[serde(default)]
    pub shows: Option<Shows>,
    /// How far the grandmaster may be off. Whoever writes this vouches.
    #[serde(default, deserialize_with = "length")]
    pub reference_error: Duration,
    /// How far the delay this way may be from the mean of both, over all links
    /// together; without, the whole of link delay and correction.
    #[serde(default, deserialize_with = "optional_length")]
    pub asymmetry: Option<Duration>,
    /// How much longer or shorter than measured one Sync may have been under
    /// way, and stamps may be off; without, the slave's `--jump-bound`.
    #[serde(default, deserialize_with = "optional_length")]
    pub stamp_error: Option<Duration>,
}

/// What a clock's seconds count.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Shows {
    /// TAI.
    Tai,
    /// UTC, leap seconds left out.
    Utc,
}

/// CLOCK_REALTIME with the kernel's bound of its error.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct SystemClockConfig {
    /// Whoever writes this vouches that the clock is never further off, whatever
    /// the kernel says: `0 ns` where this clock *is* the reference.
    #[serde(deserialize_with = "optional_length")]
    pub vouched_error: Option<Duration>,
}

impl FromStr for SourceConfig {
    type Err = BadConfig;

    /// `TYPE[,KEY=VALUE]…`, with the keys of the file.
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
    /// Whether it tells the time by the system clock, so that nothing it has
    /// said holds when that is set.
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

    /// The `type`, and what tells it from others of its kind.
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

    /// What no single value shows; `oscillator` is what the timeline's promises.
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
