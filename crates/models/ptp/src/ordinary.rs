//! An ordinary clock: one port, grandmaster or slave.

mod master;
mod slave;

use std::collections::HashMap;

use timeloom_time::{Duration, Instant, Wall};
use timeloom_wire::message::Body;
use timeloom_wire::{
    ClockIdentity, ClockQuality, Flags, Header, Message, MessageType, PortIdentity, TimeInterval,
    Version,
};

use crate::action::Departure;
use crate::best_master::{Dataset, Preference};
use crate::delay_request::DelayRequest;
use crate::foreign::ForeignMasters;
use crate::outbox::Outbox;
use crate::peer_delay::PeerDelay;
use crate::security::{
    self, Admission, Budget, DUE, Failure, Freshness, Reason, ReplayWindow, Security, Suspect,
    Verdict,
};
use crate::{Action, DelayMechanism, DropReason, Packet, Profile, Random, Report, Stamp, Token};
use master::Master;
use slave::Slave;

/// State of the port (IEEE 1588-2008, table 10, as far as one port needs it).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PortState {
    /// Waits for Announces.
    Listening,
    /// Sends Sync.
    Master,
    /// Follows a master.
    Slave,
    /// Leads nobody, follows nobody: a better clock of class 1 to 127 does.
    Passive,
}

/// What an ordinary clock is.
#[derive(Clone, Debug)]
pub struct OrdinaryConfig {
    /// Its identity; the port is number 1.
    pub clock: ClockIdentity,
    /// Its profile.
    pub profile: Profile,
    /// How good it is.
    pub quality: ClockQuality,
    /// Never lead.
    pub slave_only: bool,
    /// Never touch the clock, only report.
    pub free_running: bool,
    /// Stamps come from software: a softer servo.
    pub software_stamps: bool,
    /// TAI − UTC in seconds, announced as valid.
    pub utc_offset_s: i16,
    /// Stamps are TAI, and announced as such; otherwise the timescale is
    /// announced as arbitrary, as when the civil clock stamps, and a master
    /// that tells TAI is understood by its `currentUtcOffset`.
    pub ptp_timescale: bool,
    /// Key and ring, when time is authenticated.
    pub security: Option<Security>,
    /// How far arrival may jump against the clock's own past before the jump
    /// counts as a delay attack (authenticated slaves only).
    pub jump_bound: TimeInterval,
}

impl OrdinaryConfig {
    /// A clock that may lead and may follow.
    pub const fn new(clock: ClockIdentity, profile: Profile) -> Self {
        let quality = ClockQuality {
            class: 248,
            accuracy: 0xfe,
            offset_scaled_log_variance: 0xffff,
        };
        Self {
            clock,
            profile,
            quality,
            slave_only: false,
            free_running: false,
            software_stamps: false,
            utc_offset_s: 37,
            ptp_timescale: true,
            security: None,
            jump_bound: TimeInterval::from_ns(100_000),
        }
    }
}

/// The state machine.
#[derive(Debug)]
pub struct OrdinaryClock {
    config: OrdinaryConfig,
    port: PortIdentity,
    state: PortState,
    foreign: ForeignMasters,
    listen_until: Instant<Wall>,
    peer: PeerDelay,
    end_to_end: DelayRequest,
    master: Master,
    slave: Slave,
    announced: HashMap<PortIdentity, ReplayWindow>,
    announce_budget: Budget<(PortIdentity, u16)>,
    /// By how much the time of the master followed is ahead of this clock's
    /// scale, as its last Announce says.
    ahead: Option<Duration>,
    out: Outbox,
}

impl OrdinaryClock {
    /// Starts listening at `now`.
    pub fn new(config: OrdinaryConfig, now: Instant<Wall>) -> Self {
        let port = PortIdentity {
            clock: config.clock,
            port: 1,
        };
        let limits = config.security.as_ref().map(|s| s.limits);
        let limits = limits.unwrap_or_default();
        let first_sequence = config.security.as_ref().map_or(0, |s| s.first_sequence);
        Self {
            port,
            state: PortState::Listening,
            foreign: ForeignMasters::default(),
            listen_until: now + config.profile.announce_timeout(),
            peer: PeerDelay::new(port, &config.profile, now, config.jump_bound),
            end_to_end: DelayRequest::new(port, &config.profile, now),
            master: Master::new(now, first_sequence),
            slave: Slave::new(&config),
            announced: HashMap::new(),
            announce_budget: Budget::new(limits.failures_per_s),
            ahead: None,
            out: Outbox::default(),
            config,
        }
    }

    /// The port's state.
    pub const fn state(&self) -> PortState {
        self.state
    }

    /// The measured link, in peer-to-peer profiles.
    pub const fn peer_delay(&self) -> &PeerDelay {
        &self.peer
    }

    /// What is to be done; call until `None`.
    pub fn poll_action(&mut self) -> Option<Action> {
        self.out.poll()
    }

    /// When `handle_wake` is due.
    pub fn next_wake(&self) -> Option<Instant<Wall>> {
        let timeout = self.config.profile.announce_timeout();
        let delay = match self.config.profile.delay {
            DelayMechanism::PeerToPeer => Some(self.peer.next_wake()),
            DelayMechanism::EndToEnd if self.state == PortState::Slave => {
                Some(self.end_to_end.next_wake())
            }
            DelayMechanism::EndToEnd => None,
        };
        let listen = (self.state == PortState::Listening && !self.config.slave_only)
            .then_some(self.listen_until);
        let send = (self.state == PortState::Master).then(|| self.master.next_wake());
        let expiry = self.foreign.next_expiry(timeout);
        [delay, listen, send, expiry, self.slave.next_wake()]
            .into_iter()
            .flatten()
            .min()
    }

    /// Does what is due.
    pub fn handle_wake(&mut self, now: Instant<Wall>, random: &mut dyn Random) {
        match self.config.profile.delay {
            DelayMechanism::PeerToPeer => self.peer.handle_wake(now, random, &mut self.out),
            DelayMechanism::EndToEnd if self.state == PortState::Slave => {
                self.end_to_end.handle_wake(now, random, &mut self.out);
            }
            DelayMechanism::EndToEnd => {}
        }
        self.decide(now);
        self.slave.expire(now, &mut self.out);
        self.resolve(now);
        self.slave.settle(now, &mut self.out);
        if self.state == PortState::Master {
            let next_hop = self.peer.neighbour().map(|n| n.port.clock);
            self.master.handle_wake(
                now,
                &self.config,
                self.port,
                next_hop,
                random,
                &mut self.out,
            );
        }
    }

    /// A packet came in; `stamp` for event messages.
    pub fn handle_receive(&mut self, now: Instant<Wall>, packet: &Packet, stamp: Option<Stamp>) {
        if matches!(
            Header::version_of(&packet.bytes),
            Ok(Version::V1 | Version::Unknown(_))
        ) {
            return self.drop(DropReason::Version);
        }
        let message = match Message::parse(&packet.bytes) {
            Ok(message) => message,
            Err(error) => return self.drop(error.into()),
        };
        let header = &message.header;
        if header.source.clock == self.config.clock {
            return self.drop(DropReason::NotForUs);
        }
        if (header.domain, header.sdo_id)
            != (self.config.profile.domain, self.config.profile.sdo_id)
        {
            return self.drop(DropReason::Domain);
        }
        let stamp = match stamp {
            Some(stamp) => stamp,
            None if header.message_type.is_event() => return self.drop(DropReason::NoStamp),
            None => Stamp::ZERO,
        };
        if self.state != PortState::Master {
            self.slave.note(now, &message, stamp, &mut self.out);
        }
        let security = self.config.security.as_ref();
        match &message.body {
            Body::PdelayReq(body) => self.peer.handle_request(header, body, stamp, &mut self.out),
            Body::PdelayResp(body) => self.peer.handle_response(header, body, stamp),
            Body::PdelayRespFollowUp(body) => {
                self.peer.handle_follow_up(
                    header,
                    body,
                    &message.tlvs,
                    now,
                    security,
                    &mut self.out,
                );
            }
            Body::Announce(_) => self.handle_announce(now, &message),
            Body::Sync(_) | Body::FollowUp(_) if self.state == PortState::Slave => {
                let upstream = self.peer.neighbour();
                self.slave.handle_message(
                    now,
                    packet,
                    &message,
                    stamp,
                    upstream,
                    &self.config,
                    &mut self.out,
                );
                self.resolve(now);
            }
            Body::DelayReq(_) if self.state == PortState::Master => {
                Master::answer(&self.config, self.port, header, stamp, &mut self.out);
            }
            Body::DelayResp(body) if self.slave.follows(header.source) => {
                self.end_to_end.handle_response(header, body);
            }
            _ => {}
        }
        self.slave.settle(now, &mut self.out);
    }

    /// The departure of an event message is known, or lost for good.
    pub fn handle_transmit_stamp(
        &mut self,
        now: Instant<Wall>,
        token: Token,
        stamp: Option<Stamp>,
    ) {
        let security = self.config.security.as_ref();
        match (token.0, stamp) {
            (departure @ (Departure::PdelayReq { .. } | Departure::PdelayResp { .. }), stamp) => {
                self.peer
                    .handle_transmit_stamp(departure, stamp, now, security, &mut self.out);
            }
            (_, None) => self.drop(DropReason::LostStamp),
            (Departure::Sync { sequence }, Some(stamp)) => {
                let next_hop = self.peer.neighbour().map(|n| n.port.clock);
                self.master.handle_departure(
                    sequence,
                    stamp,
                    &self.config,
                    self.port,
                    next_hop,
                    &mut self.out,
                );
            }
            (Departure::DelayReq { sequence }, Some(stamp)) => {
                self.end_to_end.handle_transmit_stamp(sequence, stamp);
            }
            (Departure::Relayed { .. }, Some(_)) => {}
        }
    }

    /// Signatures have been checked.
    pub fn handle_verdict(&mut self, now: Instant<Wall>, verdict: &Verdict) {
        let upstream = self.peer.neighbour();
        self.slave
            .handle_verdict(verdict, upstream, &self.config, &mut self.out);
        self.use_samples();
        self.slave.settle(now, &mut self.out);
    }

    /// The clock ends: what is known of Syncs that wait is told.
    pub fn end(&mut self) {
        self.slave.end(&mut self.out);
    }

    /// Other keys from now on: a rotation, or a ring that has grown. What is
    /// being verified is judged by the keys it came with.
    pub fn set_security(&mut self, security: Security) {
        self.config.security = Some(security);
    }

    /// A record came by the second network.
    pub fn handle_statement(&mut self, now: Instant<Wall>, record: &[u8]) {
        self.slave
            .handle_statement(now, record, &self.config, &mut self.out);
        self.resolve(now);
        self.slave.settle(now, &mut self.out);
    }

    fn resolve(&mut self, now: Instant<Wall>) {
        let upstream = self.peer.neighbour();
        self.slave
            .resolve(now, upstream, &self.config, &mut self.out);
        self.use_samples();
    }

    fn drop(&mut self, reason: DropReason) {
        self.out.dropped(self.port.port, reason);
    }

    fn use_samples(&mut self) {
        while let Some(mut sample) = self.slave.take_sample() {
            let delay = match self.config.profile.delay {
                DelayMechanism::PeerToPeer => self.peer.neighbour().map(|n| n.delay),
                DelayMechanism::EndToEnd => {
                    self.end_to_end.handle_forward(sample.forward);
                    self.end_to_end.delay()
                }
            };
            // Without a delay, or a timescale, there is no offset; the servo may wait.
            let (Some(delay), Some(ahead)) = (delay, self.ahead) else {
                continue;
            };
            sample.move_by(ahead);
            if self
                .slave
                .discipline(&sample, delay, &self.config, &mut self.out)
            {
                self.end_to_end.forget();
            }
        }
    }

    fn own_dataset(&self) -> Dataset {
        let (priority1, priority2) = self.config.profile.priority;
        Dataset {
            priority1,
            quality: self.config.quality,
            priority2,
            grandmaster: self.config.clock,
            steps_removed: 0,
            sender: self.port,
            receiver: self.port,
        }
    }

    fn handle_announce(&mut self, now: Instant<Wall>, message: &Message<'_>) {
        let Body::Announce(body) = &message.body else {
            return;
        };
        let header = &message.header;
        // 9.3.2.5: a path of 255 and more is no path.
        if body.steps_removed >= 255 {
            return self.drop(DropReason::NotForUs);
        }
        if !master::fulfils(&self.config.profile, &message.tlvs) {
            return self.drop(DropReason::Profile);
        }
        if let Some(security) = &self.config.security {
            // Who has no key costs nothing to refuse.
            if security.ring.knows(header.source.clock) {
                let window = self.announced.get(&header.source);
                let due = window.is_some_and(|window| window.is_due(header.sequence_id, DUE));
                let key = due.then_some((header.source, header.sequence_id));
                let admission = self.announce_budget.admit(now, key);
                if admission != Admission::Granted {
                    self.out.dropped(self.port.port, DropReason::Flood);
                    if admission == Admission::Alarm {
                        self.announce_fails(header, Reason::Flood);
                    }
                    return;
                }
            }
            let checked = security::verify_announce(&security.ring, header, body, &message.tlvs);
            let fresh = checked.and_then(|sequence| {
                // Only verified senders get here: the table is as long as the ring.
                let window = self.announced.entry(header.source).or_default();
                match window.judge(sequence) {
                    Freshness::Newer | Freshness::Overtaken => {
                        window.remember(sequence);
                        Ok(())
                    }
                    Freshness::Used | Freshness::TooOld => Err(Reason::Replay),
                }
            });
            if let Err(reason) = fresh {
                return self.announce_fails(header, reason);
            }
        }
        self.foreign
            .heard(Dataset::from_announce(body, header.source, self.port), now);
        self.decide(now);
        if self.slave.follows(header.source) {
            let tells_tai = header.flags.has(Flags::PTP_TIMESCALE) && !self.config.ptp_timescale;
            let utc_offset_s = if header.flags.has(Flags::UTC_OFFSET_VALID) {
                body.current_utc_offset
            } else {
                self.config.utc_offset_s
            };
            let ahead_s = if tells_tai { utc_offset_s } else { 0 };
            self.ahead = Some(Duration::from_s(i64::from(ahead_s)));
        }
    }

    fn announce_fails(&mut self, header: &Header, reason: Reason) {
        self.out.alarm(Failure {
            observer: self.config.clock,
            source: header.source,
            sequence: header.sequence_id,
            reason,
            suspect: Suspect {
                after: None,
                before: self.config.clock,
            },
        });
    }

    fn decide(&mut self, now: Instant<Wall>) {
        let profile = &self.config.profile;
        let best = self
            .foreign
            .best(now, profile.announce_interval(), profile.announce_timeout());
        let preference =
            Preference::decide(&self.own_dataset(), best.as_ref(), self.config.slave_only);
        let state = match preference {
            // Nobody leads before having listened for a while (9.2.6.11).
            Preference::Master if self.state == PortState::Listening && now < self.listen_until => {
                return;
            }
            Preference::Master => PortState::Master,
            Preference::Slave(_) => PortState::Slave,
            Preference::Passive => PortState::Passive,
            Preference::Listen => PortState::Listening,
        };
        let parent = if let Preference::Slave(parent) = preference {
            Some(parent)
        } else {
            None
        };
        let new_parent = self.slave.follow(parent.map(|p| p.sender));
        if state == self.state && !new_parent {
            return;
        }
        if state == PortState::Master && self.state != state {
            self.master.start(now);
        }
        if state == PortState::Listening {
            self.listen_until = now + profile.announce_timeout();
        }
        if new_parent {
            self.end_to_end.forget();
            self.ahead = None;
        }
        self.state = state;
        self.out.report(Report::State {
            state,
            grandmaster: parent.map(|p| p.grandmaster),
        });
    }

    /// The servo's estimate of the oscillator's error in ppb, for holdover.
    pub fn drift_ppb(&self) -> f64 {
        self.slave.drift_ppb()
    }

    /// Between two Syncs of the profile.
    pub const fn sync_interval(&self) -> Duration {
        self.config.profile.sync_interval()
    }

    /// A header of this port.
    fn header(
        config: &OrdinaryConfig,
        port: PortIdentity,
        message_type: MessageType,
        sequence: u16,
    ) -> Header {
        let (domain, sdo_id) = (config.profile.domain, config.profile.sdo_id);
        Header {
            domain,
            sdo_id,
            ..Header::new(message_type, port, sequence)
        }
    }
}
