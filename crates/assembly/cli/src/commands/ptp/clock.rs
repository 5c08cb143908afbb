//! Commands `timeloom ptp gm`, `slave`, `tc` and `monitor`: run one clock on real interfaces.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Args, ValueEnum};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use timeloom_ptp_io::keys::GroupFile;
use timeloom_ptp_io::{
    Auth, DelayMechanism, EntryForm, Evidence, Feed, LineWriter, ProgramControl, ProgramOptions,
    PtpProgram, Role, Stamping, SteeredSystemClock, TimeInterval, Transport, profile_named,
};
use timeloom_run::exit::{Failure, note};
use timeloom_time::Duration;

use super::policy::{AuthName, PolicyArgument};

/// Arguments that all clocks have.
#[derive(Args)]
pub(super) struct Common {
    /// Network interface; `tc` needs several, so it may be repeated
    #[arg(short = 'i', long = "interface", required = true, value_name = "IFACE")]
    interfaces: Vec<String>,
    /// Profile: default, p2p, 61850-9-3, c37.238-2011, c37.238-2017
    #[arg(long, default_value = "p2p")]
    profile: String,
    /// Transport of messages
    #[arg(long, value_enum, default_value = "l2")]
    transport: Carrier,
    /// Source of time stamps
    #[arg(long, value_enum, default_value = "software")]
    stamps: Stamps,
    /// Delay mechanism [default: the profile's]
    #[arg(long, value_enum)]
    delay: Option<Delay>,
    /// domainNumber [default: the profile's]
    #[arg(long)]
    domain: Option<u8>,
    /// log2 of the seconds between two Sync messages [default: the profile's]
    #[arg(long, value_name = "LOG", allow_negative_numbers = true)]
    sync_interval: Option<i8>,
    /// log2 of the seconds between two Announce messages [default: the profile's]
    #[arg(long, value_name = "LOG", allow_negative_numbers = true)]
    announce_interval: Option<i8>,
    /// log2 of the seconds between two delay requests [default: the profile's]
    #[arg(long, value_name = "LOG", allow_negative_numbers = true)]
    delay_interval: Option<i8>,
    /// Protection of corrections
    #[arg(long, value_enum, default_value = "off")]
    auth: AuthName,
    /// Key directory: node.key, ring.toml, authority.pub; for --auth group the file
    /// with the group's key
    #[arg(long, value_name = "PATH")]
    keys: Option<PathBuf>,
    /// Reaction to unauthenticated time: strict, monitor, or mixed=SPAN (unsigned clocks may add
    /// this much in total; the grandmaster needs the same option, because it must allow it)
    #[arg(long, default_value = "strict")]
    policy: PolicyArgument,
    /// For a grandmaster: request entries of 8 octets instead of 18
    #[arg(long)]
    compact: bool,
    /// Address of this clock on the second network, for --auth secondary
    #[arg(long, value_name = "ADDRESS:PORT")]
    second_bind: Option<SocketAddr>,
    /// Addresses of slaves and monitors on the second network; may be repeated
    #[arg(long, value_name = "ADDRESS:PORT")]
    second_to: Vec<SocketAddr>,
    /// Maximum jump of the measured delay; a larger one counts as an attack
    #[arg(long, default_value = "100 us", value_name = "SPAN")]
    jump_bound: Duration,
    /// End after this duration, e.g. `30 s` [default: at SIGINT or SIGTERM]
    #[arg(long = "for", value_name = "SPAN")]
    duration: Option<Duration>,
    /// Write the evidence log to this file, one JSON object per line
    #[arg(long, value_name = "FILE")]
    log: Option<PathBuf>,
    /// Print the evidence as JSON, not as text
    #[arg(long)]
    json: bool,
    /// Print nothing but the summary
    #[arg(long, conflicts_with = "json")]
    quiet: bool,
}

#[derive(Clone, Copy, ValueEnum)]
pub(super) enum Carrier {
    /// Ethernet frames
    L2,
    /// UDP over IPv4, multicast
    Udp4,
}

#[derive(Clone, Copy, ValueEnum)]
enum Stamps {
    /// Time stamps of the kernel, taken from its civil clock
    Software,
    /// Time stamps of the network card
    Hardware,
}

#[derive(Clone, Copy, ValueEnum)]
pub(super) enum Delay {
    E2e,
    P2p,
}

impl From<Carrier> for Transport {
    fn from(carrier: Carrier) -> Self {
        match carrier {
            Carrier::L2 => Self::Layer2,
            Carrier::Udp4 => Self::Udp4,
        }
    }
}

impl From<Delay> for DelayMechanism {
    fn from(delay: Delay) -> Self {
        match delay {
            Delay::E2e => Self::EndToEnd,
            Delay::P2p => Self::PeerToPeer,
        }
    }
}

/// Distribute time, unless a better clock does so
#[derive(Args)]
#[command(after_help = "Example: timeloom ptp gm -i eth0 --auth inline-ed25519 --keys keys/gm")]
pub(crate) struct Grandmaster {
    #[command(flatten)]
    common: Common,
    /// Priority; the clock with the lowest value wins
    #[arg(long, default_value_t = 128)]
    priority1: u8,
    /// Priority among clocks of equal quality
    #[arg(long, default_value_t = 128)]
    priority2: u8,
    /// clockClass: 6 has a primary reference, 248 has none
    #[arg(long, default_value_t = 248)]
    class: u8,
    /// Time stamps are TAI, not UTC; the announced currentUtcOffset is 37 s
    #[arg(long)]
    tai: bool,
}

/// Follow a master: measure the offset and check its authentication
///
/// The machine's clock is not changed, unless --steer is given.
#[derive(Args)]
#[command(
    after_help = "Example: timeloom ptp slave -i eth0 --auth inline-ed25519 --keys keys/plc --for '60 s'"
)]
pub(crate) struct Slave {
    #[command(flatten)]
    common: Common,
    /// Only measure; this is the default
    #[arg(long, conflicts_with = "steer")]
    free_running: bool,
    /// Steer the machine's clock, which all its programs use
    #[arg(long)]
    steer: bool,
    /// Send every Sync to a timeline's source of type `ptp`, at the socket that is `feed` in its
    /// configuration
    #[arg(long, value_name = "SOCKET")]
    feed: Option<PathBuf>,
}

/// Forward Syncs between interfaces and add the residence time
#[derive(Args)]
#[command(
    after_help = "Example: timeloom ptp tc -i eth0 -i eth1 --auth inline-ed25519 --keys keys/tc1"
)]
pub(crate) struct Transparent {
    #[command(flatten)]
    common: Common,
}

/// Follow a master like a slave and report every violation; never refuse time or change a clock
#[derive(Args)]
#[command(
    after_help = "Example: timeloom ptp monitor -i eth0 --auth inline-ed25519 --keys keys/monitor --json"
)]
pub(crate) struct Monitor {
    #[command(flatten)]
    common: Common,
}

impl Grandmaster {
    pub(crate) fn run(self) -> Result<ExitCode, Failure> {
        let mut options = self.common.options(Role::Grandmaster)?;
        options.profile.priority = (self.priority1, self.priority2);
        options.quality.class = self.class;
        options.ptp_timescale = self.tai;
        self.common.start(options)
    }
}

impl Slave {
    pub(crate) fn run(self) -> Result<ExitCode, Failure> {
        let mut options = self.common.options(Role::Slave)?;
        if self.steer {
            if options.stamping == Stamping::Hardware {
                return Err(Failure::usage(
                    "--steer disciplines the civil clock; it needs --stamps software",
                ));
            }
            let clock = SteeredSystemClock::take().map_err(|error| {
                Failure::machine(format!("steering the machine's clock: {error}"))
            })?;
            options.steering = Some(Box::new(clock));
        }
        let feed = self
            .feed
            .map(|path| Feed::open(&path, &options, self.common.policy.0))
            .transpose()?;
        self.common.start_with(options, feed)
    }
}

impl Transparent {
    pub(crate) fn run(self) -> Result<ExitCode, Failure> {
        self.common.start(self.common.options(Role::Transparent)?)
    }
}

impl Monitor {
    pub(crate) fn run(self) -> Result<ExitCode, Failure> {
        self.common.start(self.common.options(Role::Monitor)?)
    }
}

impl Common {
    fn options(&self, role: Role) -> Result<ProgramOptions, Failure> {
        let mut options = ProgramOptions::new(role, self.interfaces.clone());
        options.transport = self.transport.into();
        options.stamping = match self.stamps {
            Stamps::Software => Stamping::Software,
            Stamps::Hardware => Stamping::Hardware,
        };
        let mut profile = profile_named(&self.profile)?;
        profile.domain = self.domain.unwrap_or(profile.domain);
        profile.log_sync_interval = self.sync_interval.unwrap_or(profile.log_sync_interval);
        profile.log_announce_interval = self
            .announce_interval
            .unwrap_or(profile.log_announce_interval);
        profile.log_delay_interval = self.delay_interval.unwrap_or(profile.log_delay_interval);
        if let Some(delay) = self.delay {
            profile.delay = delay.into();
        }
        options.profile = profile;
        options.jump_bound = TimeInterval::from_ns(self.jump_bound.as_ns());
        options.second = self.second_bind.map(|own| (own, self.second_to.clone()));
        options.auth = match (self.auth.channel(), &self.keys) {
            (None, Some(file)) if self.auth == AuthName::Group => {
                options.group = Some(GroupFile::read(file)?);
                None
            }
            (None, None) if self.auth == AuthName::Group => {
                return Err(Failure::usage("--auth group needs --keys FILE"));
            }
            (None, None) => None,
            // Without this check, a forgotten argument would disable the protection.
            (None, Some(_)) => {
                return Err(Failure::usage(
                    "--keys needs --auth; choose one of inline-ed25519, inline-bls-once, \
                     inline-bls, secondary, group",
                ));
            }
            (Some(_), None) => return Err(Failure::usage("--auth needs --keys DIR")),
            (Some(channel), Some(keys)) => {
                let form = if self.compact {
                    EntryForm::Compact
                } else {
                    EntryForm::Full
                };
                Some(Auth::open(
                    keys,
                    role,
                    channel,
                    self.policy.0,
                    form,
                    profile.max_hops,
                )?)
            }
        };
        options.duration = self.duration;
        Ok(options)
    }

    fn start(&self, options: ProgramOptions) -> Result<ExitCode, Failure> {
        self.start_with(options, None)
    }

    fn start_with(&self, options: ProgramOptions, feed: Option<Feed>) -> Result<ExitCode, Failure> {
        let wake = ProgramControl::new()
            .map_err(|error| Failure::machine(format!("a socket pair: {error}")))?;
        listen_to_signals(&wake)
            .map_err(|error| Failure::machine(format!("signal handlers: {error}")))?;
        let log = self.log.as_deref().map(LineWriter::create).transpose()?;
        let out = LineWriter::stdout()?;
        let mut log = log.as_ref().map(LineWriter::json);
        let (mut json, mut text) = (
            self.json.then(|| out.json()),
            (!self.json && !self.quiet).then(|| out.text()),
        );
        let name = options.role.name().to_owned();
        let sink = Box::new(move |line: timeloom_ptp_io::EvidenceLine| {
            for sink in [&mut log, &mut json].into_iter().flatten() {
                sink(&line);
            }
            text.iter_mut().for_each(|sink| sink(&line));
            feed.iter().for_each(|feed| feed.tell(&line));
        });
        let names = options.auth.as_ref().map(|auth| auth.names());
        let evidence = Evidence::new(&name, names.unwrap_or_default(), sink);
        let program = PtpProgram::open(options, wake, Box::new(evidence))?;
        note!(
            "timeloom: {name} {} on {}",
            program.clock(),
            self.interfaces.join(", ")
        );
        let counters = program.run()?;
        note!(
            "timeloom: {} messages in, {} out, {} dropped, {} violations",
            counters.received,
            counters.sent,
            counters.dropped.values().sum::<u64>(),
            counters.failures.values().sum::<u64>(),
        );
        Ok(ExitCode::SUCCESS)
    }
}

/// Handles signals: SIGINT and SIGTERM end the program, and SIGHUP makes it read its keys again.
/// Each signal sets its flag before it wakes the loop.
pub(super) fn listen_to_signals(wake: &ProgramControl) -> std::io::Result<()> {
    for (signal, is_stop) in [(SIGINT, true), (SIGTERM, true), (SIGHUP, false)] {
        let (stop, reload, nudge) = wake.for_signals()?;
        signal_hook::flag::register(signal, if is_stop { stop } else { reload })?;
        signal_hook::low_level::pipe::register(signal, nudge)?;
    }
    Ok(())
}
