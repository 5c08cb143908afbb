//! TCP flows, and static descriptions of all traffic.

use timeloom_time::{Instant, Virtual};

use crate::packet::PortId;
use crate::tables::source::Source;
use crate::tcp::{Receiver, Sender, TcpConfig};

/// TCP flow: sender, receiver, and the events scheduled for them.
#[derive(Clone, Debug)]
pub(crate) struct Flow {
    pub(crate) sender: Sender,
    pub(crate) receiver: Receiver,
    pub(crate) from: PortId,
    pub(crate) to: PortId,
    pub(crate) segment_bytes: u16,
    pub(crate) start: Instant<Virtual>,
    /// Earliest event scheduled for the sender. Deadlines usually move to later instants. So only
    /// one event is scheduled, and the deadline is checked when it occurs.
    pub(crate) sender_timer: Instant<Virtual>,
    pub(crate) receiver_timer: Instant<Virtual>,
    /// Number of segments that arrived in order on earlier connections.
    delivered_before: u64,
    /// Number of segments that were acknowledged on earlier connections.
    acknowledged_before: u64,
}

impl Flow {
    /// Returns a flow between two interfaces, whose connection has not been opened yet.
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

    /// Drops the connection so that another one is opened. Events already scheduled for the old one
    /// have no effect.
    pub(crate) fn reopen(&mut self) {
        self.delivered_before += self.receiver.next;
        self.acknowledged_before += self.sender.first_unacknowledged();
        self.sender = self.sender.anew();
        self.receiver = self.receiver.anew();
    }

    /// Returns the number of payload bytes that have been acknowledged to the sender.
    pub(crate) fn acknowledged_bytes(&self) -> u64 {
        let segments = self.acknowledged_before + self.sender.first_unacknowledged();
        segments * u64::from(self.segment_bytes)
    }

    /// Returns the number of payload bytes that have arrived in order.
    pub(crate) fn delivered_bytes(&self) -> u64 {
        (self.delivered_before + self.receiver.next) * u64::from(self.segment_bytes)
    }
}

/// Static description of a flow or source: its source, its destination, and the size of its
/// packets.
#[derive(Clone, Copy, Debug)]
pub(crate) struct FlowDescription {
    pub(crate) from: PortId,
    pub(crate) to: PortId,
    /// For a flow, payload bytes of a segment. For a source, bytes of its packets; 0 if these
    /// differ.
    pub(crate) bytes: u16,
}

/// Static descriptions of all traffic. An engine needs them for flows that others have.
#[derive(Debug)]
pub(crate) struct Lines {
    pub(crate) flows: Vec<FlowDescription>,
    pub(crate) sources: Vec<FlowDescription>,
}

impl FlowDescription {
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
