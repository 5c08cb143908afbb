//! A transparent clock with any number of ports (IEEE 1588-2008, clauses 10 and 11.5).
//!
//! The clock forwards event messages first and computes residence times afterwards. Expensive work,
//! that is, computing or checking a signature, is requested with [`DriverAction::Sign`] and
//! [`DriverAction::Verify`], so that no event message has to wait for it.

mod finish;
mod peer_answers;
mod relay;
mod requests;
mod vouch;
mod witness;

use timeloom_time::{Duration, Instant};
use timeloom_wire::message::Body;
use timeloom_wire::{
    ClockIdentity, Flags, Header, Message, MessageType, PortIdentity, TimeInterval, Timestamp,
    Version, message,
};

use crate::action::Departure;
use crate::outbox::Outbox;
use crate::peer_delay::PeerDelay;
use crate::security::{Security, SyncFacts};
use crate::syntonise::Syntoniser;
use crate::{
    DelayMechanism, DriverAction, DropReason, Local, Profile, PtpPacket, RandomSource, Stamp, Token,
};
use peer_answers::Answers;
use relay::{Relay, Relays};
use requests::Requests;
use witness::Witness;

/// Settings of a transparent clock.
#[derive(Clone, Debug)]
pub struct TransparentConfig {
    /// Identity of the clock; its ports are numbered from 1.
    pub clock: ClockIdentity,
    /// Number of ports.
    pub ports: u16,
    /// Profile of the clock. Its delay mechanism makes the clock peer-to-peer or end-to-end.
    pub profile: Profile,
    /// Own key and public keys, if the clock signs its corrections.
    pub security: Option<Security>,
    /// Greatest plausible residence time. A longer one indicates a step of the clock.
    pub max_residence: Duration,
    /// Greatest change of a link's delay that does not count as an attack.
    pub jump_bound: TimeInterval,
    /// `delayAsymmetry` of each port (7.4.2); index 0 is port 1, and missing values are 0.
    pub asymmetry: Vec<TimeInterval>,
}

impl TransparentConfig {
    /// Returns the settings of a clock with `ports` ports and no keys.
    pub const fn new(clock: ClockIdentity, ports: u16, profile: Profile) -> Self {
        Self {
            clock,
            ports,
            profile,
            security: None,
            max_residence: Duration::from_ms(500),
            jump_bound: TimeInterval::from_ns(100_000),
            asymmetry: Vec::new(),
        }
    }
}

/// State machine of a transparent clock.
#[derive(Debug)]
pub struct TransparentClock {
    config: TransparentConfig,
    peers: Vec<PeerDelay>,
    relays: Relays,
    requests: Requests,
    answers: Answers,
    rate: Syntoniser,
    rate_of: Option<PortIdentity>,
    witness: Witness,
    /// Number of pending signing jobs.
    signing: usize,
    out: Outbox,
}

impl TransparentClock {
    /// Creates a clock that starts at `now`.
    pub fn new(config: TransparentConfig, now: Instant<Local>) -> Self {
        let port = |number| PortIdentity {
            clock: config.clock,
            port: number,
        };
        let security = config.security.as_ref();
        let limits = security.map(|s| s.limits).unwrap_or_default();
        let peers = (1..=config.ports)
            .map(|number| PeerDelay::new(port(number), &config.profile, now, config.jump_bound))
            .collect();
        Self {
            peers,
            relays: Relays::default(),
            requests: Requests::default(),
            answers: Answers::default(),
            rate: Syntoniser::new(16),
            rate_of: None,
            witness: Witness::new(&limits),
            signing: 0,
            out: Outbox::default(),
            config,
        }
    }

    /// Returns the next action. The driver must call this until it returns `None`.
    pub fn poll_action(&mut self) -> Option<DriverAction> {
        self.out.poll()
    }

    /// Returns the time at which `handle_wake` must be called; `None` if no timer is set.
    pub fn next_wake(&self) -> Option<Instant<Local>> {
        let peer = self.peers.iter().map(PeerDelay::next_wake).min();
        let peer = peer.filter(|_| self.config.profile.delay == DelayMechanism::PeerToPeer);
        [peer, self.relays.next_expiry()]
            .into_iter()
            .flatten()
            .min()
    }

    /// Handles the timers that are due at `now`.
    pub fn handle_wake(&mut self, now: Instant<Local>, random: &mut dyn RandomSource) {
        if self.config.profile.delay == DelayMechanism::PeerToPeer {
            for peer in &mut self.peers {
                peer.handle_wake(now, random, &mut self.out);
            }
        }
        self.relays.expire(now, &mut self.out);
    }

    /// Replaces the keys, after a rotation or an extension of the key ring. A verification that is
    /// pending continues with the old keys.
    pub fn set_security(&mut self, security: Security) {
        self.config.security = Some(security);
    }

    /// Returns the measurement of the link at `port`, counted from 1; `None` without such a port.
    pub fn peer_delay(&self, port: u16) -> Option<&PeerDelay> {
        self.peers.get(usize::from(port).checked_sub(1)?)
    }

    /// Handles a packet that arrived on `port`. Event messages have an arrival timestamp, `stamp`.
    pub fn handle_receive(
        &mut self,
        now: Instant<Local>,
        port: u16,
        packet: &PtpPacket,
        stamp: Option<Stamp>,
    ) {
        match Header::version_of(&packet.bytes) {
            // Messages of IEEE 1588-2002 are forwarded unchanged.
            Ok(Version::V1) => return self.forward(port, packet),
            Ok(Version::Unknown(_)) => return self.out.dropped(port, DropReason::Version),
            _ => {}
        }
        let message = match Message::parse(&packet.bytes) {
            Ok(message) => message,
            Err(error) => return self.out.dropped(port, error.into()),
        };
        let header = &message.header;
        if header.source.clock == self.config.clock {
            return self.out.dropped(port, DropReason::NotForUs);
        }
        let stamp = match stamp {
            Some(stamp) => stamp,
            None if header.message_type.is_event() => {
                return self.out.dropped(port, DropReason::NoStamp);
            }
            None => Stamp::ZERO,
        };
        let peer_to_peer = self.config.profile.delay == DelayMechanism::PeerToPeer;
        match &message.body {
            Body::Sync(body) => self.handle_sync(now, port, packet, &message, body.origin, stamp),
            Body::FollowUp(_) => self.handle_follow_up(now, port, packet, &message),
            Body::Announce(_) => self.handle_announce(port, packet, &message),
            Body::DelayReq(_) | Body::DelayResp(_) if peer_to_peer => {
                // A peer-to-peer clock does not take part in the end-to-end mechanism (11.5.3).
                self.out.dropped(port, DropReason::NotForUs);
            }
            Body::DelayReq(_) => self.handle_delay_request(port, packet, header, stamp),
            Body::DelayResp(body) => {
                self.handle_delay_response(port, packet, header, body.requesting)
            }
            Body::PdelayReq(_) | Body::PdelayResp(_) | Body::PdelayRespFollowUp(_)
                if peer_to_peer =>
            {
                self.handle_peer(now, port, &message, stamp);
            }
            Body::PdelayReq(_) => self.handle_delay_request(port, packet, header, stamp),
            Body::PdelayResp(body) => {
                self.handle_peer_answer(port, packet, header, body.requesting, stamp);
            }
            Body::PdelayRespFollowUp(body) => {
                self.handle_peer_follow_up(port, packet, header, body.requesting);
            }
            Body::Signaling(_) | Body::Management(_) => self.forward(port, packet),
        }
    }

    /// Handles the departure timestamp of an event message; `None` if the timestamp was lost.
    /// Without it, the Sync gets no Follow_Up at that port; the port continues.
    pub fn handle_transmit_stamp(
        &mut self,
        now: Instant<Local>,
        port: u16,
        token: Token,
        stamp: Option<Stamp>,
    ) {
        match token.0 {
            Departure::Relayed { slot } => {
                if self.answers.departed(slot, stamp) || self.requests.departed(slot, port, stamp) {
                    return self.finish_answers();
                }
                if stamp.is_none() {
                    self.out.dropped(port, DropReason::LostStamp);
                }
                self.relays.departed(slot, port, stamp);
                self.finish(slot);
            }
            departure => {
                let security = self.config.security.as_ref();
                if let Some(peer) = self.peers.get_mut(usize::from(port).wrapping_sub(1)) {
                    peer.handle_transmit_stamp(departure, stamp, now, security, &mut self.out);
                }
            }
        }
    }

    fn handle_peer(&mut self, now: Instant<Local>, port: u16, message: &Message<'_>, stamp: Stamp) {
        let profile = &self.config.profile;
        let header = &message.header;
        if (header.domain, header.sdo_id) != (profile.domain, profile.sdo_id) {
            return self.out.dropped(port, DropReason::Domain);
        }
        let Some(peer) = self.peers.get_mut(usize::from(port).wrapping_sub(1)) else {
            return;
        };
        let security = self.config.security.as_ref();
        match &message.body {
            Body::PdelayReq(body) => peer.handle_request(header, body, stamp, &mut self.out),
            Body::PdelayResp(body) => peer.handle_response(header, body, stamp),
            Body::PdelayRespFollowUp(body) => {
                peer.handle_follow_up(header, body, &message.tlvs, now, security, &mut self.out);
            }
            _ => {}
        }
    }

    fn handle_sync(
        &mut self,
        now: Instant<Local>,
        ingress: u16,
        packet: &PtpPacket,
        message: &Message<'_>,
        origin: Timestamp,
        stamp: Stamp,
    ) {
        let header = &message.header;
        let two_step = header.flags.has(Flags::TWO_STEP);
        let mut bytes = packet.bytes.clone();
        if !two_step {
            // The residence time is known only after the Sync has left, so a one-step Sync is
            // converted to a two-step one (11.5.2.2).
            let _ = message::patch_flags(&mut bytes, header.flags.with(Flags::TWO_STEP));
        }
        let egress = (1..=self.config.ports).filter(|port| *port != ingress);
        let slot = self.relays.add(
            Relay::new(
                (ingress, header.source, header.domain, header.sequence_id),
                SyncFacts {
                    origin,
                    correction: header.correction,
                    vid: packet.vlan.map_or(0, |tag| tag.vid),
                },
                stamp,
                now,
                egress.clone(),
            ),
            &mut self.out,
        );
        for port in egress {
            self.out.forward(
                port,
                bytes.clone(),
                packet.vlan,
                Some(Departure::Relayed { slot }),
            );
        }
        if two_step {
            if let Some((early, vlan)) = self.relays.take_early(ingress, header) {
                let packet = PtpPacket { bytes: early, vlan };
                if let Ok(message) = Message::parse(&packet.bytes) {
                    self.handle_follow_up(now, ingress, &packet, &message);
                }
            }
        } else {
            self.relays
                .set_follow_up(slot, relay::converted(header, origin), packet.vlan);
        }
    }

    /// Handles a Follow_Up; see [`vouch`] for the choice among several Syncs.
    fn handle_follow_up(
        &mut self,
        now: Instant<Local>,
        ingress: u16,
        packet: &PtpPacket,
        message: &Message<'_>,
    ) {
        let header = &message.header;
        if !self.is_admitted(now, ingress, message) || self.is_replay(ingress, packet, message) {
            return;
        }
        let slots = self.relays.matching(ingress, header);
        if slots.is_empty() {
            return self
                .relays
                .keep_early(ingress, header, packet, now, &mut self.out);
        }
        if let Some((slot, then)) = self.vouch(ingress, packet, message, &slots) {
            self.release(slot, packet, true);
            then.into_iter().for_each(|work| self.out.push(work));
        }
    }

    fn syntonise(&mut self, message: &Message<'_>, slot: u64) {
        let Body::FollowUp(body) = message.body else {
            return;
        };
        let Some(relay) = self.relays.get(slot) else {
            return;
        };
        if self.rate_of != Some(message.header.source) {
            self.rate_of = Some(message.header.source);
            self.rate.forget();
        }
        let correction = message.header.correction + relay.facts.correction;
        self.rate
            .sample(body.precise_origin, correction, relay.arrived);
    }

    fn forward(&mut self, ingress: u16, packet: &PtpPacket) {
        for port in (1..=self.config.ports).filter(|port| *port != ingress) {
            self.out
                .forward(port, packet.bytes.clone(), packet.vlan, None);
        }
    }

    /// Forwards an Announce; in the power profiles, adds this clock's inaccuracy.
    fn handle_announce(&mut self, ingress: u16, packet: &PtpPacket, message: &Message<'_>) {
        debug_assert_eq!(message.header.message_type, MessageType::Announce);
        match finish::less_accurate(message, &self.config.profile) {
            Some(bytes) => self.forward(
                ingress,
                &PtpPacket {
                    bytes,
                    vlan: packet.vlan,
                },
            ),
            None => self.forward(ingress, packet),
        }
    }
}
