//! The portals of an emulation, by the hosts of the model that they are.

use timeloom_net::{Frame, Node, TcpTimerStats};

use crate::join::Joiner;
use crate::{Filter, Port, PortalError, Received, TxStatus};

/// What a portal has done.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PortReport {
    /// The host it is at.
    pub name: String,
    /// Frames (a train is one) taken from the outside, and their bytes.
    pub received: u64,
    /// Their bytes.
    pub received_bytes: u64,
    /// Frames given to the outside.
    pub sent: u64,
    /// Their bytes.
    pub sent_bytes: u64,
    /// What came from outside and is no frame.
    pub malformed: u64,
    /// Frames held back by the filters.
    pub filtered: u64,
    /// Frames that the outside did not take.
    pub refused: u64,
    /// Frames that the kernel dropped because this thread was too slow.
    pub dropped_before: u64,
    /// Frames that had come before this engine was there, and were thrown away
    /// ([`Options::late`](crate::Options::late)).
    pub missed: u64,
    /// Activity of the TCP timers, if the simulated network keeps them
    /// ([`Options::tcp_timers`](crate::Options::tcp_timers)).
    pub tcp_timers: Option<TcpTimerStats>,
    /// Whether the outside has gone away.
    pub gone: bool,
}

/// A portal, and what it is joined to.
pub(crate) struct Attachment {
    pub(crate) node: Node,
    pub(crate) port: Box<dyn Port>,
    pub(crate) inward: Filter,
    outward: Filter,
    joiner: Joiner,
    pub(crate) joins: bool,
    pub(crate) report: PortReport,
}

impl Attachment {
    /// Throws away what has come so far.
    pub(crate) fn miss(&mut self, buffer: &mut Vec<u8>) {
        for _ in 0..MISSED {
            match self.port.receive(buffer) {
                Ok(Received::Frame(..) | Received::Malformed) => self.report.missed += 1,
                // Of an interface that is gone the engine finds out by itself.
                Ok(Received::Nothing) | Err(_) => return,
            }
        }
    }

    /// Gives it a frame of the model, which may go out with others of the same turn.
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

    /// Ends a turn: what was held back goes out.
    pub(crate) fn flush(&mut self) {
        let (port, report) = (&mut self.port, &mut self.report);
        self.joiner
            .flush(|frame, frames| send(&mut **port, report, frame, frames));
        if self.port.flush().is_err() {
            self.report.gone = true;
        }
    }
}

/// More than any kernel keeps for a portal: whoever floods one keeps no engine from beginning.
const MISSED: usize = 1 << 16;

/// Sends what so many frames of the model were joined to.
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

/// Portals to be served, by the host of the model that they are.
#[derive(Default)]
pub struct Portals(pub(crate) Vec<Attachment>);

impl Portals {
    /// None yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// Joins `port` to host `node`, called `name` in reports. `inward` decides
    /// about frames from outside, `outward` about those from the model.
    ///
    /// # Errors
    /// When another portal is there already.
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
            report: PortReport {
                name: name.to_owned(),
                ..PortReport::default()
            },
        });
        Ok(())
    }
}
