//! Peer delay through an end-to-end transparent clock.
//!
//! Two peer-to-peer clocks may have end-to-end transparent clocks between them; they then measure
//! the whole path. The residence times of the Pdelay_Req and the Pdelay_Resp are both added to the
//! Pdelay_Resp_Follow_Up (IEEE 1588-2008, 11.5.4). This is not possible for signed peer delay: the
//! responder signs the correction, and this clock is not part of the signed link.

use std::collections::VecDeque;

use timeloom_wire::message::{PdelayRespFollowUp, patch_correction, patch_flags};
use timeloom_wire::{
    Flags, Header, Message, MessageType, PortIdentity, TimeInterval, Timestamp, VlanTag,
};

use super::TransparentClock;
use super::requests::REQUEST;
use crate::action::Departure;
use crate::stamp::scaled;
use crate::{DropReason, PtpPacket, Stamp};

/// A Pdelay_Resp that was forwarded to the port on which its request arrived.
#[derive(Clone, Debug)]
struct Answer {
    slot: u64,
    source: PortIdentity,
    requesting: PortIdentity,
    sequence: u16,
    ingress: u16,
    egress: u16,
    arrived: Stamp,
    left: Option<Stamp>,
    follow_up: Option<(Vec<u8>, Option<VlanTag>)>,
}

/// Bounded queue, in which a new entry displaces the oldest.
#[derive(Debug, Default)]
pub(super) struct Answers {
    passing: VecDeque<Answer>,
    next_slot: u64,
}

const MAX_PASSING: usize = 64;
/// Flag of slots of responses, which distinguishes them from slots of requests.
const ANSWER: u64 = REQUEST | 1 << 62;

impl Answers {
    /// Records a departure timestamp; returns false if the slot is not that of a response.
    pub(super) fn departed(&mut self, slot: u64, stamp: Option<Stamp>) -> bool {
        if slot & ANSWER != ANSWER {
            return false;
        }
        if let Some(answer) = self.passing.iter_mut().find(|a| a.slot == slot) {
            answer.left = stamp;
        }
        true
    }
}

impl TransparentClock {
    /// Forwards a Pdelay_Resp only to the port on which its request arrived.
    pub(super) fn handle_peer_answer(
        &mut self,
        ingress: u16,
        packet: &PtpPacket,
        header: &Header,
        requesting: PortIdentity,
        stamp: Stamp,
    ) {
        let sequence = header.sequence_id;
        let request = (MessageType::PdelayReq, requesting, sequence);
        let Some(egress) = self.requests.ingress_of(request).filter(|p| *p != ingress) else {
            return self.out.dropped(ingress, DropReason::Unmatched);
        };
        let mut bytes = packet.bytes.clone();
        let mut follow_up = None;
        if !header.flags.has(Flags::TWO_STEP) {
            // The turnaround time stays in the correction of the response; both timestamps are 0.
            let _ = patch_flags(&mut bytes, header.flags.with(Flags::TWO_STEP));
            follow_up = Some((converted(header, requesting), packet.vlan));
        }
        let answers = &mut self.answers;
        if answers.passing.len() == MAX_PASSING {
            answers.passing.pop_front();
        }
        let slot = ANSWER | answers.next_slot;
        answers.next_slot += 1;
        answers.passing.push_back(Answer {
            slot,
            source: header.source,
            requesting,
            sequence,
            ingress,
            egress,
            arrived: stamp,
            left: None,
            follow_up,
        });
        let departure = Some(Departure::Relayed { slot });
        self.out.forward(egress, bytes, packet.vlan, departure);
    }

    /// Stores a Pdelay_Resp_Follow_Up until the departures of request and response are known.
    pub(super) fn handle_peer_follow_up(
        &mut self,
        ingress: u16,
        packet: &PtpPacket,
        header: &Header,
        requesting: PortIdentity,
    ) {
        let key = (header.source, requesting, header.sequence_id, ingress);
        let answer = self
            .answers
            .passing
            .iter_mut()
            .find(|a| (a.source, a.requesting, a.sequence, a.ingress) == key);
        match answer {
            Some(answer) if answer.follow_up.is_none() => {
                answer.follow_up = Some((packet.bytes.clone(), packet.vlan));
                self.finish_answers();
            }
            _ => self.out.dropped(ingress, DropReason::Unmatched),
        }
    }

    /// Sends the Pdelay_Resp_Follow_Ups whose data are complete.
    pub(super) fn finish_answers(&mut self) {
        for answer in std::mem::take(&mut self.answers.passing) {
            let request = (MessageType::PdelayReq, answer.requesting, answer.sequence);
            let there = self.requests.residence(request, answer.ingress);
            let (Some(there), Some(left), Some((bytes, vlan))) =
                (there, answer.left, &answer.follow_up)
            else {
                self.answers.passing.push_back(answer);
                continue;
            };
            let stays = [there.1 - there.0, left - answer.arrived];
            let longest = self.config.max_residence;
            if stays.iter().any(|s| s.is_negative() || *s > longest) {
                self.out.dropped(answer.ingress, DropReason::Residence);
                continue;
            }
            let stayed: TimeInterval = stays
                .map(|stay| scaled(stay, self.rate.ppb()))
                .into_iter()
                .sum();
            let mut bytes = bytes.clone();
            if let Ok((header, _)) = Header::parse(&bytes)
                && patch_correction(&mut bytes, header.correction + stayed).is_ok()
            {
                self.out.forward(answer.egress, bytes, *vlan, None);
            }
        }
    }
}

/// Returns the Pdelay_Resp_Follow_Up for a one-step Pdelay_Resp.
fn converted(response: &Header, requesting: PortIdentity) -> Vec<u8> {
    let header = Header {
        message_type: MessageType::PdelayRespFollowUp,
        correction: TimeInterval::ZERO,
        ..*response
    };
    let body = PdelayRespFollowUp {
        response_origin: Timestamp::ZERO,
        requesting,
    };
    let mut buffer = [0; 64];
    let length = Message::new(header, body)
        .emit(&mut buffer)
        .expect("a Pdelay_Resp_Follow_Up is 54 octets");
    buffer[..length].to_vec()
}
