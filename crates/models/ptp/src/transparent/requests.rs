//! Delay_Reqs and Pdelay_Reqs that pass an end-to-end transparent clock (IEEE 1588-2008, 11.5.2.3).

use std::collections::VecDeque;

use timeloom_wire::message::patch_correction;
use timeloom_wire::{Header, MessageType, PortIdentity};

use super::TransparentClock;
use crate::action::Departure;
use crate::stamp::scaled;
use crate::{DropReason, PtpPacket, Stamp};

#[derive(Clone, Debug)]
struct Passing {
    slot: u64,
    request: Request,
    ingress: u16,
    arrived: Stamp,
    left: Vec<(u16, Stamp)>,
}

/// Identifies a request: type, requesting port, `sequenceId`.
pub(super) type Request = (MessageType, PortIdentity, u16);

/// Pending requests: a bounded queue, in which a new entry displaces the oldest.
#[derive(Debug, Default)]
pub(super) struct Requests {
    passing: VecDeque<Passing>,
    next_slot: u64,
}

const MAX_PASSING: usize = 64;
/// Flag of slots of requests. Slots of requests and of Syncs share one number space.
pub(super) const REQUEST: u64 = 1 << 63;

impl Requests {
    fn add(&mut self, ingress: u16, header: &Header, arrived: Stamp) -> u64 {
        if self.passing.len() == MAX_PASSING {
            self.passing.pop_front();
        }
        let slot = REQUEST | self.next_slot;
        self.next_slot += 1;
        self.passing.push_back(Passing {
            slot,
            request: (header.message_type, header.source, header.sequence_id),
            ingress,
            arrived,
            left: Vec::new(),
        });
        slot
    }

    /// Records a departure timestamp; returns false if the slot is that of a Sync.
    pub(super) fn departed(&mut self, slot: u64, port: u16, stamp: Option<Stamp>) -> bool {
        if slot & REQUEST == 0 {
            return false;
        }
        if let (Some(passing), Some(stamp)) =
            (self.passing.iter_mut().find(|p| p.slot == slot), stamp)
        {
            passing.left.push((port, stamp));
        }
        true
    }

    /// Returns the port on which `request` arrived; `None` if it is unknown.
    pub(super) fn ingress_of(&self, request: Request) -> Option<u16> {
        let passing = self.passing.iter().rev().find(|p| p.request == request)?;
        Some(passing.ingress)
    }

    /// Returns arrival and departure time of the request whose response arrived on `port`.
    pub(super) fn residence(&self, request: Request, port: u16) -> Option<(Stamp, Stamp)> {
        let passing = self.passing.iter().rev().find(|p| p.request == request)?;
        let (_, left) = passing.left.iter().find(|(of, _)| *of == port)?;
        Some((passing.arrived, *left))
    }
}

impl TransparentClock {
    /// Forwards a Delay_Req or Pdelay_Req to every other port.
    pub(super) fn handle_delay_request(
        &mut self,
        ingress: u16,
        packet: &PtpPacket,
        header: &Header,
        stamp: Stamp,
    ) {
        let slot = self.requests.add(ingress, header, stamp);
        for port in (1..=self.config.ports).filter(|port| *port != ingress) {
            self.out.forward(
                port,
                packet.bytes.clone(),
                packet.vlan,
                Some(Departure::Relayed { slot }),
            );
        }
    }

    /// Adds the request's residence time to the response. The response arrives on the port by which
    /// the request left.
    pub(super) fn handle_delay_response(
        &mut self,
        ingress: u16,
        packet: &PtpPacket,
        header: &Header,
        requesting: PortIdentity,
    ) {
        let request = (MessageType::DelayReq, requesting, header.sequence_id);
        let Some((arrived, left)) = self.requests.residence(request, ingress) else {
            return self.out.dropped(ingress, DropReason::Unmatched);
        };
        let stay = left - arrived;
        if stay.is_negative() || stay > self.config.max_residence {
            return self.out.dropped(ingress, DropReason::Residence);
        }
        let mut bytes = packet.bytes.clone();
        if patch_correction(
            &mut bytes,
            header.correction + scaled(stay, self.rate.ppb()),
        )
        .is_ok()
        {
            self.forward(
                ingress,
                &PtpPacket {
                    bytes,
                    vlan: packet.vlan,
                },
            );
        }
    }
}
