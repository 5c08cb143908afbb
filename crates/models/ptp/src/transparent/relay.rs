//! Syncs that were forwarded, and Follow_Ups that arrived before their Sync.

use std::collections::VecDeque;

use timeloom_time::{Duration, Instant};
use timeloom_wire::message::FollowUp;
use timeloom_wire::{Header, Message, MessageType, PortIdentity, TimeInterval, Timestamp, VlanTag};

use crate::outbox::Outbox;
use crate::security::SyncFacts;
use crate::{DropReason, Local, PtpPacket, Stamp};

/// Identifies a Sync: ingress port, source, domain, `sequenceId`.
pub(super) type Key = (u16, PortIdentity, u8, u16);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Egress {
    /// The Sync was sent; its departure time is not known yet.
    Pending,
    /// The Sync departed at this time; its Follow_Up has not been sent yet.
    Left(Stamp),
    /// The Follow_Up was sent, or will never be.
    Done,
}

/// One forwarded Sync, with its state at each egress port.
#[derive(Clone, Debug)]
pub(super) struct Relay {
    slot: u64,
    pub(super) key: Key,
    pub(super) facts: SyncFacts,
    pub(super) arrived: Stamp,
    at: Instant<Local>,
    pub(super) egress: Vec<(u16, Egress)>,
    pub(super) follow_up: Option<(Vec<u8>, Option<VlanTag>)>,
    /// True if this clock verified the Follow_Up and found it invalid.
    pub(super) broken: bool,
}

impl Relay {
    pub(super) fn new(
        key: Key,
        facts: SyncFacts,
        arrived: Stamp,
        at: Instant<Local>,
        egress: impl Iterator<Item = u16>,
    ) -> Self {
        let egress = egress.map(|port| (port, Egress::Pending)).collect();
        Self {
            slot: 0,
            key,
            facts,
            arrived,
            at,
            egress,
            follow_up: None,
            broken: false,
        }
    }
}

/// A Follow_Up without its Sync: key, message, tag and arrival time.
type Early = (Key, Vec<u8>, Option<VlanTag>, Instant<Local>);

/// Bounded queues. A flood displaces the oldest entries, which are counted.
#[derive(Debug, Default)]
pub(super) struct Relays {
    syncs: VecDeque<Relay>,
    early: VecDeque<Early>,
    next_slot: u64,
}

const MAX_SYNCS: usize = 64;
const MAX_EARLY: usize = 16;
const KEEP: Duration = Duration::from_ms(1500);

fn key(ingress: u16, header: &Header) -> Key {
    (ingress, header.source, header.domain, header.sequence_id)
}

impl Relays {
    pub(super) fn add(&mut self, mut relay: Relay, out: &mut Outbox) -> u64 {
        if self.syncs.len() == MAX_SYNCS
            && let Some(oldest) = self.syncs.pop_front()
            && oldest.follow_up.is_none()
        {
            out.dropped(oldest.key.0, DropReason::QueueFull);
        }
        relay.slot = self.next_slot;
        self.next_slot += 1;
        self.syncs.push_back(relay);
        self.next_slot - 1
    }

    pub(super) fn get(&self, slot: u64) -> Option<&Relay> {
        self.syncs.iter().find(|relay| relay.slot == slot)
    }

    fn get_mut(&mut self, slot: u64) -> Option<&mut Relay> {
        self.syncs.iter_mut().find(|relay| relay.slot == slot)
    }

    /// Returns the slots of the Syncs without a Follow_Up to which `header` may belong, oldest
    /// first.
    pub(super) fn matching(&self, ingress: u16, header: &Header) -> Vec<u64> {
        let key = key(ingress, header);
        let free = self
            .syncs
            .iter()
            .filter(|relay| relay.key == key && relay.follow_up.is_none());
        free.map(|relay| relay.slot).collect()
    }

    pub(super) fn departed(&mut self, slot: u64, port: u16, stamp: Option<Stamp>) {
        let Some(relay) = self.get_mut(slot) else {
            return;
        };
        if let Some((_, egress)) = relay.egress.iter_mut().find(|(of, _)| *of == port) {
            *egress = stamp.map_or(Egress::Done, Egress::Left);
        }
    }

    pub(super) fn set_follow_up(&mut self, slot: u64, bytes: Vec<u8>, vlan: Option<VlanTag>) {
        if let Some(relay) = self.get_mut(slot) {
            relay.follow_up = Some((bytes, vlan));
        }
    }

    pub(super) fn set_broken(&mut self, slot: u64) {
        if let Some(relay) = self.get_mut(slot) {
            relay.broken = true;
        }
    }

    pub(super) fn done(&mut self, slot: u64, port: u16) {
        let Some(relay) = self.get_mut(slot) else {
            return;
        };
        for (_, egress) in relay.egress.iter_mut().filter(|(of, _)| *of == port) {
            *egress = Egress::Done;
        }
    }

    pub(super) fn keep_early(
        &mut self,
        ingress: u16,
        header: &Header,
        packet: &PtpPacket,
        now: Instant<Local>,
        out: &mut Outbox,
    ) {
        if self.early.len() == MAX_EARLY {
            self.early.pop_front();
            out.dropped(ingress, DropReason::QueueFull);
        }
        self.early
            .push_back((key(ingress, header), packet.bytes.clone(), packet.vlan, now));
    }

    pub(super) fn take_early(
        &mut self,
        ingress: u16,
        header: &Header,
    ) -> Option<(Vec<u8>, Option<VlanTag>)> {
        let key = key(ingress, header);
        let at = self.early.iter().position(|(of, ..)| *of == key)?;
        self.early
            .remove(at)
            .map(|(_, bytes, vlan, _)| (bytes, vlan))
    }

    pub(super) fn next_expiry(&self) -> Option<Instant<Local>> {
        let sync = self.syncs.front().map(|relay| relay.at + KEEP);
        let early = self.early.front().map(|(.., at)| *at + KEEP);
        [sync, early].into_iter().flatten().min()
    }

    pub(super) fn expire(&mut self, now: Instant<Local>, out: &mut Outbox) {
        while self
            .syncs
            .front()
            .is_some_and(|relay| now - relay.at >= KEEP)
        {
            if let Some(relay) = self.syncs.pop_front()
                && relay.follow_up.is_none()
            {
                out.dropped(relay.key.0, DropReason::Unmatched);
            }
        }
        while self.early.front().is_some_and(|(.., at)| now - *at >= KEEP) {
            if let Some((key, ..)) = self.early.pop_front() {
                out.dropped(key.0, DropReason::Unmatched);
            }
        }
    }
}

/// Returns the Follow_Up for a one-step Sync. It contains the time of the Sync; the correction of
/// the Sync stays in the Sync.
pub(super) fn converted(sync: &Header, origin: Timestamp) -> Vec<u8> {
    let header = Header {
        message_type: MessageType::FollowUp,
        correction: TimeInterval::ZERO,
        flags: sync.flags.without(timeloom_wire::Flags::TWO_STEP),
        ..*sync
    };
    let mut buffer = [0; 64];
    let message = Message::new(
        header,
        FollowUp {
            precise_origin: origin,
        },
    );
    let length = message.emit(&mut buffer).expect("a Follow_Up is 44 octets");
    buffer[..length].to_vec()
}
