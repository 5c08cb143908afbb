//! PTP program: its options, its sockets, and the loop that runs it.

use std::net::SocketAddr;

use timeloom_ptp::security::GroupKey;
use timeloom_ptp::{
    DelayMechanism, Machine, OrdinaryConfig, Profile, Role, TransparentConfig, Transport,
};
use timeloom_sys::wall_now;
use timeloom_time::{Duration, Instant};
use timeloom_wire::{ClockIdentity, ClockQuality, TimeInterval};

use crate::driver::{Counters, Driver};
use crate::socket::{PortSocket, hardware};
use crate::{Auth, Interface, Observer, PtpError, SecondNetwork, Stamping, Steering, Wake};

/// Settings of a program.
pub struct ProgramOptions {
    /// Role of the program in the network.
    pub role: Role,
    /// Names of the interfaces, of which the first is port 1. Only a transparent clock has several.
    pub interfaces: Vec<String>,
    /// Transport of the messages.
    pub transport: Transport,
    /// Clock that takes the timestamps.
    pub stamping: Stamping,
    /// True if general messages are timestamped too. A clock does not need that, but a measurement
    /// of a clock does.
    pub stamp_general: bool,
    /// PTP profile: the intervals, the delay mechanism and the domain.
    pub profile: Profile,
    /// Clock identity; if absent, it is derived from the first interface's address.
    pub clock: Option<ClockIdentity>,
    /// Clock quality that a grandmaster announces.
    pub quality: ClockQuality,
    /// True if the timestamps are TAI. Otherwise they are UTC, as software timestamps of the system
    /// clock are.
    pub ptp_timescale: bool,
    /// Keys of this clock; present if time is authenticated.
    pub auth: Option<Auth>,
    /// Key of the group; present if all messages must carry the group's authentication code.
    pub group: Option<GroupKey>,
    /// Second network for statements: the program's own address, and the destination addresses.
    pub second: Option<(SocketAddr, Vec<SocketAddr>)>,
    /// Largest change of a delay that does not count as an attack.
    pub jump_bound: TimeInterval,
    /// Value of `delayAsymmetry` for each port of a transparent clock.
    pub asymmetry: Vec<TimeInterval>,
    /// Clock to discipline. If absent, a slave only measures.
    pub steering: Option<Box<dyn Steering>>,
    /// Duration of the run; if absent, the program runs until it is stopped.
    pub duration: Option<Duration>,
}

impl ProgramOptions {
    /// Returns the default options of a clock with software timestamps.
    pub fn new(role: Role, interfaces: Vec<String>) -> Self {
        Self {
            role,
            interfaces,
            transport: Transport::Layer2,
            stamping: Stamping::Software,
            stamp_general: false,
            profile: Profile::DEFAULT_PEER_TO_PEER,
            clock: None,
            quality: ClockQuality {
                class: 248,
                accuracy: 0xfe,
                offset_scaled_log_variance: 0xffff,
            },
            ptp_timescale: false,
            auth: None,
            group: None,
            second: None,
            jump_bound: TimeInterval::from_ns(100_000),
            asymmetry: Vec::new(),
            steering: None,
            duration: None,
        }
    }

    fn check(&self) -> Result<(), PtpError> {
        let count = self.interfaces.len();
        let fits = match self.role {
            Role::Transparent => count >= 2,
            _ => count == 1,
        };
        if !fits {
            return Err(PtpError::usage(format!(
                "a {} has {}, not {count}: name each with -i",
                self.role.name(),
                if self.role == Role::Transparent {
                    "two interfaces or more"
                } else {
                    "one interface"
                },
            )));
        }
        let secondary = self.auth.as_ref().is_some_and(Auth::is_secondary);
        if secondary != self.second.is_some() {
            return Err(PtpError::usage(
                "a second network is needed with `secondary`, and only there: --second-bind and --second-to",
            ));
        }
        if self.auth.is_some() && self.group.is_some() {
            return Err(PtpError::usage(
                "a group's code covers what each hop changes: use it or the hops' own signatures",
            ));
        }
        if self.auth.is_some() && self.profile.delay == DelayMechanism::EndToEnd {
            return Err(PtpError::usage(
                "authentication needs peer delay, by which every clock knows its neighbours: use --delay p2p",
            ));
        }
        Ok(())
    }
}

/// PTP program whose sockets are open.
pub struct Program {
    driver: Driver,
    wake: Wake,
    duration: Option<Duration>,
    clock: ClockIdentity,
    auth: Option<Auth>,
}

impl Program {
    /// Opens the sockets in the network namespace of the calling thread.
    ///
    /// # Errors
    /// Fails if arguments are invalid, an interface is missing, or the process lacks a permission.
    pub fn open(
        options: ProgramOptions,
        wake: Wake,
        observer: Box<dyn Observer>,
    ) -> Result<Self, PtpError> {
        options.check()?;
        let interfaces = options
            .interfaces
            .iter()
            .map(|name| Interface::find(name))
            .collect::<Result<Vec<_>, _>>()?;
        if options.stamping == Stamping::Hardware {
            let clocks = interfaces
                .iter()
                .map(hardware::clock_of)
                .collect::<Result<Vec<_>, _>>()?;
            if clocks.windows(2).any(|pair| pair[0] != pair[1]) {
                return Err(PtpError::Unsupported(
                    "the interfaces are stamped by different clocks, so a residence time cannot be \
                     measured; use --stamps software"
                        .to_owned(),
                ));
            }
        }
        let clock = match (&options.auth, options.clock) {
            (Some(auth), _) => auth.loaded().clock,
            (None, Some(clock)) => clock,
            (None, None) => interfaces[0].clock_identity(),
        };
        let mut sockets = interfaces
            .iter()
            .map(|interface| PortSocket::open(interface, options.transport, options.stamping))
            .collect::<Result<Vec<_>, _>>()?;
        if options.stamp_general {
            sockets.iter_mut().try_for_each(PortSocket::stamp_general)?;
        }
        let machine = machine(&options, clock, interfaces.len());
        let second = options
            .second
            .map(|(own, to)| SecondNetwork::open(own, to))
            .transpose()?;
        let mut driver = Driver::new(
            machine,
            sockets,
            options.stamping,
            wake.clone(),
            options.steering,
            second,
            observer,
        )?
        .with_group(options.group);
        if let Some(auth) = &options.auth {
            driver.sign_with(&auth.security());
        }
        Ok(Self {
            driver,
            wake,
            duration: options.duration,
            clock,
            auth: options.auth,
        })
    }

    /// Returns the clock identity of the program.
    pub const fn clock(&self) -> ClockIdentity {
        self.clock
    }

    /// Runs until the duration has passed or the program is stopped, and returns the counters.
    ///
    /// # Errors
    /// Fails only on errors that end the whole program. If a port goes down, the program waits for
    /// it.
    pub fn run(mut self) -> Result<Counters, PtpError> {
        let end = self
            .duration
            .map_or(Instant::FAR_FUTURE, |length| wall_now() + length);
        self.driver.act();
        while !self.wake.is_stopped() && wall_now() < end {
            let until = self
                .auth
                .as_ref()
                .map_or(end, |auth| end.min(auth.next_look()));
            self.driver.turn(until)?;
            self.look_at_keys();
        }
        self.driver.machine.end();
        self.driver.act();
        self.driver.observer.ended(&self.driver.counters);
        Ok(self.driver.counters)
    }
}

impl Program {
    /// Loads new keys if their files have changed, and reports the result. If they are refused, the
    /// keys in force remain.
    fn look_at_keys(&mut self) {
        let asked = self.wake.take_reload();
        let Some(auth) = &mut self.auth else { return };
        if !auth.is_due(wall_now(), asked) {
            return;
        }
        let text = match auth.reload() {
            Ok(()) => {
                let loaded = auth.loaded();
                self.driver.observer.rekeyed(loaded);
                format!(
                    "keys read again: ring {}, signing with epoch {}",
                    loaded.serial, loaded.epoch
                )
            }
            Err(error) => format!("new keys refused: {error}"),
        };
        let security = auth.security();
        self.driver.sign_with(&security);
        self.driver.machine.set_security(security);
        self.driver.observer.notice(&text);
    }
}

/// Returns the state machine for the options. Its clock starts at zero.
fn machine(options: &ProgramOptions, clock: ClockIdentity, ports: usize) -> Machine {
    let start = Instant::ZERO;
    if options.role == Role::Transparent {
        let mut config = TransparentConfig::new(clock, ports as u16, options.profile);
        config.security = options.auth.as_ref().map(Auth::security);
        config.jump_bound = options.jump_bound;
        config.asymmetry = options.asymmetry.clone();
        return Machine::transparent(config, start);
    }
    let mut config = OrdinaryConfig::new(clock, options.profile);
    config.quality = options.quality;
    config.slave_only = options.role != Role::Grandmaster;
    config.free_running = options.steering.is_none() || options.role == Role::Monitor;
    config.software_stamps = options.stamping == Stamping::Software;
    config.ptp_timescale = options.ptp_timescale;
    config.security = options.auth.as_ref().map(Auth::security);
    config.jump_bound = options.jump_bound;
    Machine::ordinary(config, start)
}
