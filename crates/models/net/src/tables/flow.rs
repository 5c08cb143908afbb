//! TCP flows, and the lines of all traffic.

use timeloom_time::{Instant, Virtual};

use crate::packet::PortId;
use crate::tables::source::Source;
use crate::tcp::{Receiver, Sender, TcpConfig};

/// TCP flow: both ends, and their scheduled events.
#[derive(Clone, Debug)]
pub(crate) struct Flow {
    pub(crate) sender: Sender,
    pub(crate) receiver: Receiver,
    pub(crate) from: PortId,
    pub(crate) to: PortId,
    pub(crate) segment_bytes: u16,
    pub(crate) start: Instant<Virtual>,
    /// Earliest event scheduled for each end. Deadlines usually move away, so there is one event,
    /// checked when it occurs, instead of one per packet.
    pub(crate) sender_timer: Instant<Virtual>,
    pub(crate) receiver_timer: Instant<Virtual>,
    /// Segments that arrived in order, and were acknowledged, by closed connections.
    delivered_before: u64,
    acknowledged_before: u64,
}

impl Flow {
    /// Returns a flow from one interface to another, not opened yet.
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

    /// Drops the connection; another one is to be opened. Events that were scheduled for it have no
    /// effect.
    pub(crate) fn reopen(&mut self) {
        self.delivered_before += self.receiver.next;
        self.acknowledged_before += self.sender.first_unacknowledged();
        self.sender = self.sender.anew();
        self.receiver = self.receiver.anew();
    }

    /// Returns the payload bytes that the sender knows to have arrived.
    pub(crate) fn acknowledged_bytes(&self) -> u64 {
        let segments = self.acknowledged_before + self.sender.first_unacknowledged();
        segments * u64::from(self.segment_bytes)
    }

    /// Returns the payload bytes that arrived in order.
    pub(crate) fn delivered_bytes(&self) -> u64 {
        (self.delivered_before + self.receiver.next) * u64::from(self.segment_bytes)
    }
}

/// Source and destination of a flow or source, and the size of its packets.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Line {
    pub(crate) from: PortId,
    pub(crate) to: PortId,
    /// Payload of a flow's segments; bytes of a source's packets, 0 if they differ.
    pub(crate) bytes: u16,
}

/// Lines of all traffic of a network: an engine's knowledge of flows that others have.
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
