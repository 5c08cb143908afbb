//! Portals of an emulation, by the model's host that each represents.

use timeloom_net::{Frame, Node, TcpTimerStats};

use crate::join::Joiner;
use crate::repair::Repair;
use crate::{Filter, Port, PortalError, Received, TxStatus};

/// Statistics of a portal.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PortReport {
    /// Name of its host.
    pub name: String,
    /// Frames received from outside (a train counts as one).
    pub received: u64,
    /// Bytes of the received frames.
    pub received_bytes: u64,
    /// Frames sent to the outside.
    pub sent: u64,
    /// Bytes of the sent frames.
    pub sent_bytes: u64,
    /// Input from outside that was not a frame.
    pub malformed: u64,
    /// Frames dropped by the filters.
    pub filtered: u64,
    /// Frames that the outside did not accept.
    pub refused: u64,
    /// Frames that the kernel dropped because this thread was too slow.
    pub dropped_before: u64,
    /// Frames that arrived before this engine started and were discarded
    /// ([`Options::late`](crate::Options::late)).
    pub missed: u64,
    /// Activity of the TCP timers, if the simulated network keeps them
    /// ([`Options::tcp_timers`](crate::Options::tcp_timers)).
    pub tcp_timers: Option<TcpTimerStats>,
    /// True if the outside interface is gone.
    pub gone: bool,
}

/// A portal with its host, filters and report.
pub(crate) struct Attachment {
    pub(crate) node: Node,
    pub(crate) port: Box<dyn Port>,
    pub(crate) inward: Filter,
    outward: Filter,
    joiner: Joiner,
    pub(crate) joins: bool,
    pub(crate) report: PortReport,
    pub(crate) repair: Repair,
}

impl Attachment {
    /// Discards the frames received so far.
    pub(crate) fn miss(&mut self, buffer: &mut Vec<u8>) {
        for _ in 0..MISSED {
            match self.port.receive(buffer) {
                Ok(Received::Frame(..) | Received::Malformed) => self.report.missed += 1,
                // The engine detects by itself that an interface is gone.
                Ok(Received::Nothing) | Err(_) => return,
            }
        }
    }

    /// Sends a frame of the model, possibly joined with others of the same iteration.
    pub(crate) fn give(&mut self, frame: &Frame<'_>) {
        if !self.outward.is_empty() && !self.outward.passes(frame.head) {
            self.report.filtered += 1;
            return;
        }
        let (port, report) = (&mut self.port, &mut self.report);
        let mut send = |frame: &Frame<'_>, frames| send(&mut **port, report, frame, frames);
        if self.joins {
            self.joiner.add(frame, send);
        } else {
            send(frame, 1);
        }
    }

    /// Ends an iteration: sends the frames held back.
    pub(crate) fn flush(&mut self) {
        let (port, report) = (&mut self.port, &mut self.report);
        self.joiner
            .flush(|frame, frames| send(&mut **port, report, frame, frames));
        if self.port.flush().is_err() {
            self.report.gone = true;
        }
    }
}

/// Limit of discarded frames; it is more than a kernel queues for a portal, so that a flood does
/// not keep the engine from starting.
const MISSED: usize = 1 << 16;

/// Sends a frame that contains `frames` frames of the model.
fn send(port: &mut dyn Port, report: &mut PortReport, frame: &Frame<'_>, frames: u64) {
    match port.send(frame) {
        Ok(TxStatus::Done) => {
            report.sent += 1;
            report.sent_bytes += (frame.head.len() + frame.rest.len()) as u64;
        }
        Ok(TxStatus::Refused) => report.refused += frames,
        Err(_) => report.gone = true,
    }
}

/// Portals to serve, by the model's host that each represents.
#[derive(Default)]
pub struct Portals(pub(crate) Vec<Attachment>);

impl Portals {
    /// Creates an empty list.
    pub fn new() -> Self {
        Self::default()
    }

    /// Joins `port` to host `node`, named `name` in reports. `inward` filters frames from outside,
    /// `outward` those from the model.
    ///
    /// # Errors
    /// Fails if the host already has a portal.
    pub fn join(
        &mut self,
        node: Node,
        name: &str,
        port: Box<dyn Port>,
        [inward, outward]: [Filter; 2],
    ) -> Result<(), PortalError> {
        if self.0.iter().any(|other| other.node == node) {
            return Err(PortalError::PortUsedTwice(name.to_owned()));
        }
        self.0.push(Attachment {
            node,
            port,
            inward,
            outward,
            joiner: Joiner::default(),
            joins: false,
            repair: Repair::default(),
            report: PortReport {
                name: name.to_owned(),
                ..PortReport::default()
            },
        });
        Ok(())
    }
}
