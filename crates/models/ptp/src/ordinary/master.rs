//! Master part of an ordinary clock.

use std::collections::VecDeque;

use timeloom_time::Instant;
use timeloom_time::convert::{low_u16, low_u32};
use timeloom_wire::message::{Announce, DelayResp, FollowUp, Sync};
use timeloom_wire::tlv::{
    AlternateTimeOffset, PowerProfile, PowerProfileVersion, PtpText, TlvType, TlvWriter, Tlvs,
};
use timeloom_wire::{
    ClockIdentity, Flags, Header, Message, MessageType, PortIdentity, TimeInterval, Timestamp,
};

use super::{OrdinaryClock, OrdinaryConfig};
use crate::action::Departure;
use crate::outbox::Outbox;
use crate::peer_delay::nonce;
use crate::security::{Role, Statement, SyncFacts, SyncName, sign_announce, view_of};
use crate::stamp::on_the_wire;
use crate::{DriverAction, DropReason, Local, PowerTlv, Profile, RandomSource, Stamp};

/// Sends Sync and Announce messages periodically, and Follow_Ups when departure times are known.
#[derive(Debug)]
pub(super) struct Master {
    announce_at: Instant<Local>,
    sync_at: Instant<Local>,
    announce_sequence: u64,
    sync_sequence: u64,
    /// Syncs whose departure time is not known yet: `sequenceId`, 48-bit number, nonce.
    departing: VecDeque<(u16, u64, Timestamp)>,
}

const MAX_DEPARTING: usize = 8;
/// Greatest 48-bit sequence number; numbers must not wrap.
const MAX_SEQUENCE: u64 = (1 << 48) - 1;

impl Master {
    pub(super) const fn new(now: Instant<Local>, start: u64) -> Self {
        Self {
            announce_at: now,
            sync_at: now,
            announce_sequence: start,
            sync_sequence: start,
            departing: VecDeque::new(),
        }
    }

    pub(super) fn start(&mut self, now: Instant<Local>) {
        (self.announce_at, self.sync_at) = (now, now);
        self.departing.clear();
    }

    pub(super) fn next_wake(&self) -> Instant<Local> {
        self.announce_at.min(self.sync_at)
    }

    pub(super) fn handle_wake(
        &mut self,
        now: Instant<Local>,
        config: &OrdinaryConfig,
        port: PortIdentity,
        next_hop: Option<ClockIdentity>,
        random: &mut dyn RandomSource,
        out: &mut Outbox,
    ) {
        if now >= self.announce_at {
            self.announce_at = now + config.profile.announce_interval();
            self.announce(config, port, out);
        }
        if now >= self.sync_at {
            // The next Sync is due one interval after the last due time, not after `now`, unless
            // intervals were missed.
            let next = self.sync_at + config.profile.sync_interval();
            self.sync_at = if next > now {
                next
            } else {
                now + config.profile.sync_interval()
            };
            if config.security.is_some() && next_hop.is_none() {
                // A clock with keys never sends unsigned messages instead.
                return out.dropped(port.port, DropReason::NoNextHop);
            }
            self.sync(config, port, random, out);
        }
    }

    fn sync(
        &mut self,
        config: &OrdinaryConfig,
        port: PortIdentity,
        random: &mut dyn RandomSource,
        out: &mut Outbox,
    ) {
        if self.sync_sequence >= MAX_SEQUENCE {
            // With a reused number, a replay would be valid. The clock can send again with new
            // keys, or another clock can.
            return out.dropped(port.port, DropReason::SequenceUsedUp);
        }
        self.sync_sequence += 1;
        let sequence = low_u16(self.sync_sequence);
        let origin = if config.security.is_some() {
            nonce(random)
        } else {
            Timestamp::ZERO
        };
        if self.departing.len() == MAX_DEPARTING {
            self.departing.pop_front();
        }
        self.departing
            .push_back((sequence, self.sync_sequence, origin));
        let mut header = OrdinaryClock::header(config, port, MessageType::Sync, sequence);
        header.flags = Flags::TWO_STEP;
        header.log_message_interval = config.profile.log_sync_interval;
        if let Some(security) = config.security.as_ref().filter(|s| !s.secondary) {
            let moment = SyncName::new(&header, security.epoch, self.sync_sequence);
            security.secret.expect(&moment, std::iter::once(port.port));
        }
        let message = Message::new(header, Sync { origin });
        out.send(
            port.port,
            &message,
            config.profile.vlan,
            Some(Departure::Sync { sequence }),
        );
    }

    pub(super) fn handle_departure(
        &mut self,
        sequence: u16,
        stamp: Stamp,
        config: &OrdinaryConfig,
        port: PortIdentity,
        next_hop: Option<ClockIdentity>,
        out: &mut Outbox,
    ) {
        let Some(at) = self.departing.iter().position(|(s, ..)| *s == sequence) else {
            return;
        };
        let Some((_, sequence48, origin)) = self.departing.remove(at) else {
            return;
        };
        let mut header = OrdinaryClock::header(config, port, MessageType::FollowUp, sequence);
        header.log_message_interval = config.profile.log_sync_interval;
        let body = FollowUp {
            precise_origin: on_the_wire(stamp),
        };
        let message = Message::new(header, body);
        let mut buffer = [0; 128];
        let tlvs = match (&config.security, next_hop) {
            (None, _) => Tlvs::EMPTY,
            (Some(_), None) => return out.dropped(port.port, DropReason::NoNextHop),
            (Some(security), Some(next)) if security.secondary => {
                let statement = Statement {
                    clock: config.clock,
                    epoch: security.epoch,
                    source: port,
                    domain: header.domain,
                    sequence,
                    next,
                    view: view_of(header.domain, port, sequence, body.precise_origin, origin),
                    correction_out: header.correction,
                    role: Role::Origin {
                        precise_origin: body.precise_origin,
                        sequence48,
                    },
                };
                out.push(DriverAction::Statement(statement.sign(security)));
                Tlvs::EMPTY
            }
            (Some(security), Some(next)) => {
                let sync = SyncFacts {
                    origin,
                    correction: TimeInterval::ZERO,
                    vid: config.profile.vlan.map_or(0, |tag| tag.vid),
                };
                let high = low_u32(sequence48 >> 16);
                security.sign_follow_up(&message.header, &body, &sync, high, next, &mut buffer)
            }
        };
        out.send(
            port.port,
            &message.with_tlvs(tlvs),
            config.profile.vlan,
            None,
        );
    }

    fn announce(&mut self, config: &OrdinaryConfig, port: PortIdentity, out: &mut Outbox) {
        if self.announce_sequence >= MAX_SEQUENCE {
            return out.dropped(port.port, DropReason::SequenceUsedUp);
        }
        self.announce_sequence += 1;
        let mut header = OrdinaryClock::header(
            config,
            port,
            MessageType::Announce,
            low_u16(self.announce_sequence),
        );
        if config.ptp_timescale {
            header.flags = Flags::PTP_TIMESCALE.with(Flags::UTC_OFFSET_VALID);
        }
        header.log_message_interval = config.profile.log_announce_interval;
        let body = Announce {
            origin: Timestamp::ZERO,
            current_utc_offset: config.utc_offset_s,
            grandmaster_priority1: config.profile.priority.0,
            grandmaster_quality: config.quality,
            grandmaster_priority2: config.profile.priority.1,
            grandmaster: config.clock,
            steps_removed: 0,
            time_source: 0xa0,
        };
        let mut buffer = [0; 256];
        let mut writer = TlvWriter::new(&mut buffer);
        power_tlvs(config, &mut writer);
        let message = Message::new(header, body);
        if let Some(security) = &config.security {
            let high = low_u32(self.announce_sequence >> 16);
            sign_announce(security, &message.header, &body, high, &mut writer);
        }
        out.send(
            port.port,
            &message.with_tlvs(writer.finish()),
            config.profile.vlan,
            None,
        );
    }

    /// Answers a Delay_Req with a Delay_Resp (11.3.2).
    pub(super) fn answer(
        config: &OrdinaryConfig,
        port: PortIdentity,
        request: &Header,
        stamp: Stamp,
        out: &mut Outbox,
    ) {
        let mut header =
            OrdinaryClock::header(config, port, MessageType::DelayResp, request.sequence_id);
        header.correction = request.correction;
        header.log_message_interval = config.profile.log_delay_interval;
        let body = DelayResp {
            receive: on_the_wire(stamp),
            requesting: request.source,
        };
        out.send(
            port.port,
            &Message::new(header, body),
            config.profile.vlan,
            None,
        );
    }
}

/// Writes the TLVs that the profile requires in every Announce.
fn power_tlvs(config: &OrdinaryConfig, writer: &mut TlvWriter<'_>) {
    let Some(power) = config.profile.power else {
        return;
    };
    let version = match power {
        PowerTlv::V2011 => PowerProfileVersion::V2011 {
            grandmaster_ns: 200,
            network_ns: 0,
        },
        PowerTlv::V2017 => PowerProfileVersion::V2017 { total_ns: 250 },
    };
    let grandmaster_id = u16::from(config.clock.0[7]).clamp(3, 254);
    let tlv = PowerProfile {
        grandmaster_id,
        version,
    };
    writer
        .push(TlvType::ORGANIZATION_EXTENSION, |to| tlv.emit(to))
        .expect("the power TLV fits");
    if power == PowerTlv::V2011 {
        let local = AlternateTimeOffset {
            current_offset_s: -i32::from(config.utc_offset_s),
            display: PtpText(b"UTC"),
            ..AlternateTimeOffset::default()
        };
        writer
            .push(TlvType::ALTERNATE_TIME_OFFSET_INDICATOR, |to| {
                local.emit(to)
            })
            .expect("the alternate time fits");
    }
}

/// Returns true if an Announce contains the TLVs that the profile requires of every master.
pub(super) fn fulfils(profile: &Profile, tlvs: &Tlvs<'_>) -> bool {
    let power = tlvs
        .iter()
        .filter(|tlv| tlv.kind == TlvType::ORGANIZATION_EXTENSION);
    let mut found = power.filter_map(|tlv| PowerProfile::parse(tlv.value)?.ok());
    match profile.power {
        None => true,
        Some(PowerTlv::V2011) => {
            found.any(|p| matches!(p.version, PowerProfileVersion::V2011 { .. }))
                && tlvs
                    .iter()
                    .any(|tlv| tlv.kind == TlvType::ALTERNATE_TIME_OFFSET_INDICATOR)
        }
        Some(PowerTlv::V2017) => {
            found.any(|p| matches!(p.version, PowerProfileVersion::V2017 { .. }))
        }
    }
}
