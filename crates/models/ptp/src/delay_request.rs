//! The delay request-response mechanism of a slave (IEEE 1588-2008, 11.3).

use timeloom_time::{Duration, Instant};
use timeloom_wire::message::{DelayReq, DelayResp};
use timeloom_wire::{Header, Message, MessageType, PortIdentity, TimeInterval};

use crate::action::Departure;
use crate::outbox::Outbox;
use crate::{Local, Profile, RandomSource, Stamp};

/// Measures the mean delay of the whole path: `[(t2 − t1) + (t4 − t3)] / 2`.
#[derive(Clone, Debug)]
pub(crate) struct DelayRequest {
    own: PortIdentity,
    profile: Profile,
    sequence: u16,
    next_at: Instant<Local>,
    departed: Option<Stamp>,
    /// t2 − t1 of the last Sync, less its corrections.
    forward: Option<TimeInterval>,
    recent: Vec<TimeInterval>,
}

const MEDIAN_OF: usize = 9;

impl DelayRequest {
    pub(crate) const fn new(own: PortIdentity, profile: &Profile, now: Instant<Local>) -> Self {
        Self {
            own,
            profile: *profile,
            sequence: 0,
            next_at: now,
            departed: None,
            forward: None,
            recent: Vec::new(),
        }
    }

    pub(crate) const fn next_wake(&self) -> Instant<Local> {
        self.next_at
    }

    /// Sends a request at a random instant, on average one per interval, so that the slaves of a
    /// master do not send simultaneously (9.5.11.2).
    pub(crate) fn handle_wake(
        &mut self,
        now: Instant<Local>,
        random: &mut dyn RandomSource,
        out: &mut Outbox,
    ) {
        if now < self.next_at {
            return;
        }
        let double = self
            .profile
            .delay_interval()
            .as_ns()
            .saturating_mul(2)
            .max(1);
        self.next_at = now + Duration::from_ns((random.next_u64() >> 1).cast_signed() % double);
        if self.forward.is_none() {
            return; // there is nothing to combine it with yet
        }
        self.sequence = self.sequence.wrapping_add(1);
        self.departed = None;
        let header = Header {
            domain: self.profile.domain,
            sdo_id: self.profile.sdo_id,
            ..Header::new(MessageType::DelayReq, self.own, self.sequence)
        };
        let departure = Departure::DelayReq {
            sequence: self.sequence,
        };
        out.send(
            self.own.port,
            &Message::new(header, DelayReq::default()),
            self.profile.vlan,
            Some(departure),
        );
    }

    pub(crate) fn handle_transmit_stamp(&mut self, sequence: u16, stamp: Stamp) {
        if sequence == self.sequence {
            self.departed = Some(stamp);
        }
    }

    /// Records t2 − t1 of a Sync: arrival by this clock minus departure by the master's clock.
    pub(crate) fn handle_forward(&mut self, forward: TimeInterval) {
        self.forward = Some(forward);
    }

    /// Discards all measurements; called after a step of the clock.
    pub(crate) fn forget(&mut self) {
        (self.forward, self.departed) = (None, None);
        self.recent.clear();
    }

    pub(crate) fn handle_response(&mut self, header: &Header, body: &DelayResp) {
        if body.requesting != self.own || header.sequence_id != self.sequence {
            return;
        }
        let (Some(t3), Some(forward)) = (self.departed.take(), self.forward) else {
            return;
        };
        let back = TimeInterval::from_ns(body.receive.as_ns().saturating_sub(t3.as_ns()))
            - header.correction;
        if self.recent.len() == MEDIAN_OF {
            self.recent.remove(0);
        }
        self.recent.push(TimeInterval((forward + back).0 / 2));
    }

    /// Returns the median of the last nine measured delays; `None` before the first measurement.
    pub(crate) fn delay(&self) -> Option<TimeInterval> {
        let mut sorted = self.recent.clone();
        sorted.sort_unstable();
        sorted.get(sorted.len() / 2).copied()
    }
}
