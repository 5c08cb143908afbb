//! A TCP flow, and from where to where traffic goes.

use timeloom_time::{Instant, Virtual};

use crate::packet::PortId;
use crate::tables::source::Source;
use crate::tcp::{Receiver, Sender, TcpConfig};

/// A TCP flow: both ends, and their appointments.
#[derive(Clone, Debug)]
pub(crate) struct Flow {
    pub(crate) sender: Sender,
    pub(crate) receiver: Receiver,
    pub(crate) from: PortId,
    pub(crate) to: PortId,
    pub(crate) segment_bytes: u16,
    pub(crate) start: Instant<Virtual>,
    /// The earliest appointment made for each end. Deadlines mostly move away,
    /// so there is one appointment, kept late, instead of one per packet.
    pub(crate) sender_timer: Instant<Virtual>,
    pub(crate) receiver_timer: Instant<Virtual>,
    /// Segments that arrived in order, and were acknowledged, by connections that are over.
    delivered_before: u64,
    acknowledged_before: u64,
}

impl Flow {
    /// From one interface to another, not opened yet.
    pub(crate) fn new(from: PortId, to: PortId, config: &TcpConfig) -> Self {
        Self {
            sender: Sender::new(config),
            receiver: Receiver::new(config),
            from,
            to,
            segment_bytes: config.segment_bytes,
            start: config.start,
            sender_timer: Instant::FAR_FUTURE,
            receiver_timer: Instant::FAR_FUTURE,
            delivered_before: 0,
            acknowledged_before: 0,
        }
    }

    /// Forgets the connection; another is to be opened. Appointments that were made for it find
    /// nothing due.
    pub(crate) fn reopen(&mut self) {
        self.delivered_before += self.receiver.next;
        self.acknowledged_before += self.sender.first_unacknowledged();
        self.sender = self.sender.anew();
        self.receiver = self.receiver.anew();
    }

    /// Payload bytes of which the sender knows that they arrived.
    pub(crate) fn acknowledged_bytes(&self) -> u64 {
        let segments = self.acknowledged_before + self.sender.first_unacknowledged();
        segments * u64::from(self.segment_bytes)
    }

    /// Payload bytes that arrived in order.
    pub(crate) fn delivered_bytes(&self) -> u64 {
        (self.delivered_before + self.receiver.next) * u64::from(self.segment_bytes)
    }
}

/// From where to where a flow or source goes, and how much each packet of it carries.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Line {
    pub(crate) from: PortId,
    pub(crate) to: PortId,
    /// Payload of a flow's segments; bytes of a source's packets, 0 where they differ.
    pub(crate) bytes: u16,
}

/// The lines of all traffic of a network: what an engine knows of flows that others have.
#[derive(Debug)]
pub(crate) struct Lines {
    pub(crate) flows: Vec<Line>,
    pub(crate) sources: Vec<Line>,
}

impl Line {
    pub(crate) fn of_flow(flow: &Flow) -> Self {
        Self {
            from: flow.from,
            to: flow.to,
            bytes: flow.segment_bytes,
        }
    }

    pub(crate) fn of_source(source: &Source) -> Self {
        Self {
            from: source.from(),
            to: source.to(),
            bytes: source.fixed_size().unwrap_or(0),
        }
    }
}
