//! Evidence log: the clocks' statements about every Sync, and the outcome.
//!
//! The format is one JSON object per line, so that a truncated log is still readable and any tool
//! can follow it. The slave decides the outcome of a Sync and reports it once, as a
//! [`SyncReport`](timeloom_ptp::SyncReport); this module adds names and the machine's time. An
//! event that concerns no Sync under way (a forged Announce, a peer-delay message) is a line of its
//! own.

mod line;
mod log;
mod sync_line;
#[cfg(test)]
pub(crate) mod tests;

use std::collections::HashMap;
use std::sync::Arc;

use timeloom_ptp::Report;
use timeloom_ptp::security::{Failure, Reason, Suspect};
use timeloom_sys::clock::realtime_ns;
use timeloom_wire::{ClockIdentity, PortIdentity};

use crate::keys::LoadedKeys;
use crate::{Counters, Observer};
pub use line::{Alarm, EvidenceLine, Violation};
pub use log::LineWriter;
pub use sync_line::SyncLine;

/// Readable names of clocks, by identity. A clock without a name is shown by its identity.
#[derive(Clone, Debug, Default)]
pub struct Names(pub HashMap<ClockIdentity, String>);

impl Names {
    fn of(&self, clock: ClockIdentity) -> String {
        self.0
            .get(&clock)
            .cloned()
            .unwrap_or_else(|| clock.to_string())
    }

    fn port(&self, port: PortIdentity) -> String {
        format!("{}-{}", self.of(port.clock), port.port)
    }

    fn violation(&self, reason: Reason, suspect: &Suspect) -> Violation {
        Violation {
            reason: reason.to_string(),
            after: suspect.after.map(|clock| self.of(clock)),
            before: self.of(suspect.before),
        }
    }
}

/// Converter of a clock's reports into lines. It runs in the event loop's thread and only collects
/// data; the writer's thread formats the lines.
pub struct Evidence {
    node: Arc<str>,
    names: Arc<Names>,
    sink: Box<dyn FnMut(EvidenceLine) + Send>,
}

impl Evidence {
    /// Creates the converter for the reports of `node`. The lines are passed to `sink`.
    pub fn new(node: &str, names: Names, sink: Box<dyn FnMut(EvidenceLine) + Send>) -> Self {
        Self {
            node: node.into(),
            names: Arc::new(names),
            sink,
        }
    }

    fn alarm(&self, failure: &Failure) -> Alarm {
        Alarm {
            t_ns: realtime_ns(),
            node: self.node.to_string(),
            source: self.names.port(failure.source),
            sequence: failure.sequence,
            violation: self.names.violation(failure.reason, &failure.suspect),
        }
    }
}

impl Observer for Evidence {
    fn report(&mut self, report: &Report) {
        let (t_ns, node) = (realtime_ns(), self.node.to_string());
        let line = match report {
            Report::Sync(sync) => EvidenceLine::Sync(Box::new(SyncLine {
                t_ns,
                node: self.node.clone(),
                names: self.names.clone(),
                report: (**sync).clone(),
            })),
            Report::Failure {
                failure,
                in_record: false,
            } => EvidenceLine::Alarm(Box::new(self.alarm(failure))),
            Report::PeerDelay {
                port,
                neighbour,
                delay,
                ..
            } => EvidenceLine::Link {
                t_ns,
                node,
                port: *port,
                neighbour: self.names.port(*neighbour),
                delay: *delay,
            },
            Report::State { state, grandmaster } => EvidenceLine::State {
                t_ns,
                node,
                state: state.to_string(),
                grandmaster: grandmaster.map(|clock| self.names.of(clock)),
            },
            Report::Relayed {
                ingress,
                egress,
                sequence,
                residence,
            } => EvidenceLine::Relay {
                t_ns,
                node,
                sequence: *sequence,
                ingress: *ingress,
                egress: *egress,
                residence: *residence,
            },
            // The record of the Sync includes these reports.
            Report::Offset { .. }
            | Report::Failure {
                in_record: true, ..
            }
            | Report::Dropped { .. } => return,
        };
        (self.sink)(line);
    }

    fn rekeyed(&mut self, keys: &LoadedKeys) {
        self.names = Arc::new(keys.names.clone());
    }

    fn notice(&mut self, text: &str) {
        (self.sink)(EvidenceLine::Notice {
            t_ns: realtime_ns(),
            node: self.node.to_string(),
            text: text.to_owned(),
        });
    }

    fn ended(&mut self, counters: &Counters) {
        let counters = counters.clone();
        (self.sink)(EvidenceLine::Summary {
            t_ns: realtime_ns(),
            node: self.node.to_string(),
            received: counters.received,
            sent: counters.sent,
            send_errors: counters.send_errors,
            clock_steps: counters.clock_steps,
            stamps_discarded: counters.stamps_discarded,
            dropped: counters.dropped,
            failures: counters.failures,
        });
    }
}
