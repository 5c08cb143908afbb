//! Ordinary clock: one port, which is grandmaster or slave.

mod announce;
mod config;
mod master;
mod slave;

pub use config::{OrdinaryConfig, PortState};

use std::collections::HashMap;

use timeloom_time::{Duration, Instant};
use timeloom_wire::message::Body;
use timeloom_wire::{Header, Message, MessageType, PortIdentity, Version};

use crate::action::Departure;
use crate::delay_request::DelayRequest;
use crate::foreign::ForeignMasters;
use crate::outbox::Outbox;
use crate::peer_delay::PeerDelay;
use crate::security::{Budget, ReplayWindow, Security, Verdict};
use crate::{
    DelayMechanism, DriverAction, DropReason, Local, PtpPacket, RandomSource, Stamp, Token,
};
use master::Master;
use slave::Slave;

/// State machine of an ordinary clock.
#[derive(Debug)]
pub struct OrdinaryClock {
    config: OrdinaryConfig,
    port: PortIdentity,
    state: PortState,
    foreign: ForeignMasters,
    listen_until: Instant<Local>,
    peer: PeerDelay,
    end_to_end: DelayRequest,
    master: Master,
    slave: Slave,
    announced: HashMap<PortIdentity, ReplayWindow>,
    announce_budget: Budget<(PortIdentity, u16)>,
    /// Time by which the master's timescale is ahead of this clock's, according to its last
    /// Announce; `None` if unknown.
    ahead: Option<Duration>,
    out: Outbox,
}

impl OrdinaryClock {
    /// Creates a clock that starts listening at `now`.
    pub fn new(config: OrdinaryConfig, now: Instant<Local>) -> Self {
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

    /// Returns the present state of the port.
    pub const fn state(&self) -> PortState {
        self.state
    }

    /// Returns the measurement of the link's delay, which peer-to-peer profiles use.
    pub const fn peer_delay(&self) -> &PeerDelay {
        &self.peer
    }

    /// Returns the next action. The driver must call this until it returns `None`.
    pub fn poll_action(&mut self) -> Option<DriverAction> {
        self.out.poll()
    }

    /// Returns the time at which `handle_wake` must be called; `None` if no timer is set.
    pub fn next_wake(&self) -> Option<Instant<Local>> {
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

    /// Handles the timers that are due at `now`.
    pub fn handle_wake(&mut self, now: Instant<Local>, random: &mut dyn RandomSource) {
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

    /// Handles a packet that arrived. Event messages have an arrival timestamp, `stamp`.
    pub fn handle_receive(
        &mut self,
        now: Instant<Local>,
        packet: &PtpPacket,
        stamp: Option<Stamp>,
    ) {
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

    /// Handles the departure timestamp of an event message; `None` if the timestamp was lost.
    pub fn handle_transmit_stamp(
        &mut self,
        now: Instant<Local>,
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

    /// Handles the result of an [`DriverAction::Verify`].
    pub fn handle_verdict(&mut self, now: Instant<Local>, verdict: &Verdict) {
        let upstream = self.peer.neighbour();
        self.slave
            .handle_verdict(verdict, upstream, &self.config, &mut self.out);
        self.use_samples();
        self.slave.settle(now, &mut self.out);
    }

    /// Ends the clock: queues reports of the Syncs that are still pending.
    pub fn end(&mut self) {
        self.slave.end(&mut self.out);
    }

    /// Replaces the keys, after a rotation or an extension of the key ring. A verification that is
    /// pending continues with the old keys.
    pub fn set_security(&mut self, security: Security) {
        self.config.security = Some(security);
    }

    /// Handles a record that arrived over the second network.
    pub fn handle_statement(&mut self, now: Instant<Local>, record: &[u8]) {
        self.slave
            .handle_statement(now, record, &self.config, &mut self.out);
        self.resolve(now);
        self.slave.settle(now, &mut self.out);
    }

    fn resolve(&mut self, now: Instant<Local>) {
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
            // The offset cannot be computed without a delay and a timescale; the servo waits for
            // both.
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

    /// Returns a message header with this port as the sender.
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
