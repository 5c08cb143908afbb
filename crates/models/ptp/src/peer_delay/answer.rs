//! Received requests whose response has not departed yet.

use std::collections::VecDeque;

use timeloom_wire::message::PdelayReq;
use timeloom_wire::{Header, PortIdentity, TimeInterval, Timestamp};

use crate::Stamp;

#[derive(Clone, Debug)]
pub(super) struct Answer {
    slot: u32,
    pub(super) requesting: PortIdentity,
    pub(super) sequence: u16,
    pub(super) correction: TimeInterval,
    pub(super) nonce: Timestamp,
    pub(super) receipt: Stamp,
}

/// Bounded queue: a flood of requests displaces only older requests.
#[derive(Clone, Debug, Default)]
pub(super) struct Answers {
    waiting: VecDeque<Answer>,
    next_slot: u32,
}

const CAPACITY: usize = 8;

impl Answers {
    pub(super) fn add(&mut self, header: &Header, body: &PdelayReq, receipt: Stamp) -> u32 {
        let slot = self.next_slot;
        self.next_slot = slot.wrapping_add(1);
        if self.waiting.len() == CAPACITY {
            self.waiting.pop_front();
        }
        self.waiting.push_back(Answer {
            slot,
            requesting: header.source,
            sequence: header.sequence_id,
            correction: header.correction,
            nonce: body.origin,
            receipt,
        });
        slot
    }

    pub(super) fn take(&mut self, slot: u32) -> Option<Answer> {
        let at = self.waiting.iter().position(|answer| answer.slot == slot)?;
        self.waiting.remove(at)
    }
}
