//! A TCP flow, and from where to where traffic goes.

use timeloom_time::{Instant, Virtual};

use crate::packet::PortId;
use crate::tables::source::Source;
use crate::tcp::{Receiver, Sender};

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
