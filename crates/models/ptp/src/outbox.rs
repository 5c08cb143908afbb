//! Queue between a state machine's handlers and its driver.

use std::collections::VecDeque;

use timeloom_wire::{Message, VlanTag};

use crate::action::Departure;
use crate::security::VerificationFailure;
use crate::{ClockReport, DriverAction, DropReason, PtpPacket, Token};

/// Greatest length of a message in octets: ptp4l 3.1.1 drops longer ones.
pub(crate) const MAX_MESSAGE: usize = 1486;

/// Queue in which messages precede work. A driver that signs on its own thread has therefore sent
/// all messages before it starts to sign.
#[derive(Debug, Default)]
pub(crate) struct Outbox {
    messages: VecDeque<DriverAction>,
    work: VecDeque<DriverAction>,
}

impl Outbox {
    pub(crate) fn push(&mut self, action: DriverAction) {
        match action {
            DriverAction::Verify(_) | DriverAction::Sign(_) => self.work.push_back(action),
            _ => self.messages.push_back(action),
        }
    }

    pub(crate) fn report(&mut self, report: ClockReport) {
        self.push(DriverAction::Report(report));
    }

    /// Reports a violation that is not part of the record of any Sync.
    pub(crate) fn alarm(&mut self, failure: VerificationFailure) {
        self.report(ClockReport::Failure {
            failure,
            in_record: false,
        });
    }

    pub(crate) fn dropped(&mut self, port: u16, reason: DropReason) {
        self.report(ClockReport::Dropped { port, reason });
    }

    /// Queues a message that this crate has built. Such a message always fits; if not, this crate
    /// has a bug.
    pub(crate) fn send(
        &mut self,
        port: u16,
        message: &Message<'_>,
        vlan: Option<VlanTag>,
        departure: Option<Departure>,
    ) {
        let mut buffer = [0; MAX_MESSAGE];
        let length = message
            .emit(&mut buffer)
            .expect("our own message fits the longest frame");
        self.forward(port, buffer[..length].to_vec(), vlan, departure);
    }

    pub(crate) fn forward(
        &mut self,
        port: u16,
        bytes: Vec<u8>,
        vlan: Option<VlanTag>,
        departure: Option<Departure>,
    ) {
        let token = departure.map(Token);
        self.push(DriverAction::Send {
            port,
            packet: PtpPacket { bytes, vlan },
            token,
        });
    }

    pub(crate) fn poll(&mut self) -> Option<DriverAction> {
        self.messages.pop_front().or_else(|| self.work.pop_front())
    }
}
