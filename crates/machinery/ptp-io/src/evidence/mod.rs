//! The evidence log: for every Sync who said what, and what came of it.
//!
//! One JSON object per line, so that a log that was cut off is still readable
//! and any tool can follow it. A Sync is told once, when its fate is known:
//! measured, rejected, or never completed. What concerns no Sync that is open
//! (a forged Announce, a peer-delay message) is a line of its own.

mod line;
mod log;
#[cfg(test)]
mod tests;

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

use timeloom_ptp::security::{
    Failure, KeyRing, ORGANIZATION, Policy, Reason, Role, Statement, Suspect, Verdict, VerifyJob,
    port_of,
};
use timeloom_ptp::{Packet, PortState, Report, Stamp};
use timeloom_sys::clock::{realtime_ns, wall_now};
use timeloom_time::{Duration, Instant, Wall};
use timeloom_wire::message::Body;
use timeloom_wire::tlv::{SignedTlv, Suite};
use timeloom_wire::{ClockIdentity, Message, PortIdentity, TimeInterval};

use crate::Role as ClockRole;
use crate::keys::Loaded;
use crate::{Counters, Observer};
pub use line::{Alarm, Fate, HopLine, Line, SyncLine, Violation};
pub use log::LineWriter;

/// Names for people, by identity; who has none is written as its identity.
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

    fn violation(&self, reason: &str, suspect: &Suspect) -> Violation {
        Violation {
            reason: reason.to_owned(),
            after: suspect.after.map(|clock| self.of(clock)),
            before: self.of(suspect.before),
        }
    }
}

struct Open {
    source: PortIdentity,
    since: Instant<Wall>,
    sync_correction: TimeInterval,
    /// Known, but what is said of it in the same breath belongs to it, too.
    fate: Option<Fate>,
    line: SyncLine,
}

/// Puts the lines together. Runs on the event loop; the sink takes them away.
pub struct Evidence {
    node: String,
    domain: u8,
    /// Whether Syncs end here.
    follows: bool,
    /// Whether a Sync whose arrival jumped is used all the same.
    uses_delayed: bool,
    names: Names,
    ring: Option<Arc<KeyRing>>,
    /// Statements of the second network by (source, sequence).
    stated: VecDeque<(PortIdentity, u16, HopLine)>,
    open: VecDeque<Open>,
    sink: Box<dyn FnMut(Line) + Send>,
}

/// Syncs whose fate is open, at most.
const MAX_OPEN: usize = 64;
const MAX_STATED: usize = 512;
/// When a Sync with a violation will not be measured any more.
const REJECTED_AFTER: Duration = Duration::from_ms(400);
/// When nothing more will come.
const INCOMPLETE_AFTER: Duration = Duration::from_ms(1500);

impl Evidence {
    /// Evidence of `node`, which plays `role`, about the Syncs of `domain`.
    pub fn new(
        node: &str,
        role: ClockRole,
        domain: u8,
        names: Names,
        ring: Option<Arc<KeyRing>>,
        sink: Box<dyn FnMut(Line) + Send>,
    ) -> Self {
        Self {
            node: node.to_owned(),
            domain,
            follows: matches!(role, ClockRole::Slave | ClockRole::Monitor),
            uses_delayed: role == ClockRole::Monitor,
            names,
            ring,
            stated: VecDeque::new(),
            open: VecDeque::new(),
            sink,
        }
    }

    /// Evidence of a clock that works by `policy`: under [`Policy::Monitor`] it
    /// uses a Sync that jumped, and the line says `accepted` beside the failure.
    #[must_use]
    pub fn by_policy(mut self, policy: Policy) -> Self {
        self.uses_delayed |= policy == Policy::Monitor;
        self
    }

    fn entry(&mut self, source: PortIdentity, sequence: u16) -> Option<&mut Open> {
        self.open
            .iter_mut()
            .rev()
            .find(|open| open.source == source && open.line.sequence == sequence)
    }

    fn begin(&mut self, source: PortIdentity, sequence: u16) -> &mut Open {
        let at = self
            .open
            .iter()
            .rposition(|open| open.source == source && open.line.sequence == sequence);
        let at = at.unwrap_or_else(|| {
            if self.open.len() == MAX_OPEN {
                self.close(0);
            }
            let line = SyncLine {
                t_ns: 0,
                node: self.node.clone(),
                source: self.names.port(source),
                sequence,
                arrival_ns: None,
                origin_ns: None,
                correction_ns: None,
                hops: Vec::new(),
                offset_ns: None,
                path_delay_ns: None,
                verdict: Fate::Incomplete,
                failures: Vec::new(),
            };
            self.open.push_back(Open {
                source,
                since: wall_now(),
                sync_correction: TimeInterval::ZERO,
                fate: None,
                line,
            });
            self.open.len() - 1
        });
        &mut self.open[at]
    }

    /// Tells the fate of the Sync at `at`.
    fn close(&mut self, at: usize) {
        let Some(mut open) = self.open.remove(at) else {
            return;
        };
        let is_violated = !open.line.failures.is_empty();
        open.line.verdict = open.fate.unwrap_or(if is_violated {
            Fate::Rejected
        } else {
            Fate::Incomplete
        });
        open.line.t_ns = realtime_ns();
        if open.line.hops.is_empty() {
            let sequence = open.line.sequence;
            let of_it = self
                .stated
                .iter()
                .filter(|(source, of, _)| *source == open.source && *of == sequence);
            open.line.hops = of_it.map(|(.., hop)| hop.clone()).collect();
        }
        self.stated
            .retain(|(source, of, _)| *source != open.source || *of != open.line.sequence);
        (self.sink)(Line::Sync(Box::new(open.line)));
    }

    fn close_old(&mut self) {
        let now = wall_now();
        let is_over = |open: &Open| {
            let age = now - open.since;
            open.fate.is_some()
                || age > INCOMPLETE_AFTER
                || (!open.line.failures.is_empty() && age > REJECTED_AFTER)
        };
        while let Some(at) = self.open.iter().position(is_over) {
            self.close(at);
        }
    }

    fn failure(&mut self, failure: &Failure) {
        let violation = self
            .names
            .violation(&format!("{:?}", failure.reason), &failure.suspect);
        let holds_over = !self.uses_delayed;
        if let Some(open) = self.entry(failure.source, failure.sequence) {
            if failure.reason == Reason::Delayed && holds_over {
                // Every signature holds, and it does not discipline all the same.
                open.fate = Some(Fate::Rejected);
            }
            open.line.failures.push(violation);
            return;
        }
        let alarm = Alarm {
            t_ns: realtime_ns(),
            node: self.node.clone(),
            source: self.names.port(failure.source),
            sequence: failure.sequence,
            violation,
        };
        (self.sink)(Line::Alarm(Box::new(alarm)));
    }
}

impl Observer for Evidence {
    fn received(&mut self, _port: u16, packet: &Packet, stamp: Option<Stamp>) {
        self.close_old();
        let Ok(message) = Message::parse(&packet.bytes) else {
            return;
        };
        let header = message.header;
        if header.domain != self.domain || !self.follows {
            return;
        }
        match message.body {
            Body::Sync(body) => {
                let two_step = header.flags.has(timeloom_wire::Flags::TWO_STEP);
                let open = self.begin(header.source, header.sequence_id);
                if open.line.arrival_ns.is_none() {
                    open.line.arrival_ns = stamp.map(Stamp::as_ns);
                    open.sync_correction = header.correction;
                    if !two_step {
                        open.line.origin_ns = Some(body.origin.as_ns());
                        open.line.correction_ns = Some(header.correction.as_ns_f64());
                    }
                }
            }
            Body::FollowUp(body) => {
                let open = self.begin(header.source, header.sequence_id);
                open.line.origin_ns = Some(body.precise_origin.as_ns());
                open.line.correction_ns =
                    Some((open.sync_correction + header.correction).as_ns_f64());
            }
            _ => {}
        }
    }

    fn verified(&mut self, job: &VerifyJob, verdict: &Verdict) {
        let Ok(message) = Message::parse(&job.message) else {
            return;
        };
        let Some(Ok(tlv)) = message
            .tlvs
            .iter()
            .find_map(|tlv| SignedTlv::parse(tlv, ORGANIZATION))
        else {
            return;
        };
        let mut hops: Vec<HopLine> = tlv
            .entries()
            .map(|(entry, _)| {
                let identity = job.ring.resolve(entry.signer);
                HopLine {
                    clock: identity.map_or_else(
                        || format!("{:?}", entry.signer),
                        |clock| self.names.of(clock),
                    ),
                    ingress: entry.ingress_port,
                    egress: match tlv.head.suite {
                        Suite::BlsOnce => port_of(entry.egress_port),
                        _ => entry.egress_port,
                    },
                    contribution_ns: entry.contribution.as_ns_f64(),
                    verdict: "holds",
                    identity: identity.unwrap_or_default(),
                }
            })
            .collect();
        if let Err(failure) = &verdict.result {
            judge(&mut hops, &failure.suspect);
        }
        if let Some(open) = self.entry(message.header.source, message.header.sequence_id) {
            open.line.hops = hops;
        }
    }

    fn statement(&mut self, record: &[u8]) {
        let Some(ring) = &self.ring else { return };
        let Ok(statement) = Statement::verify(record, ring) else {
            return;
        };
        let Role::Hop {
            ingress,
            egress,
            contribution,
            ..
        } = statement.role
        else {
            return;
        };
        if self.stated.len() == MAX_STATED {
            self.stated.pop_front();
        }
        let hop = HopLine {
            clock: self.names.of(statement.clock),
            ingress,
            egress,
            contribution_ns: contribution.as_ns_f64(),
            verdict: "holds",
            identity: statement.clock,
        };
        self.stated
            .push_back((statement.source, statement.sequence, hop));
    }

    fn report(&mut self, report: &Report) {
        let (t_ns, node) = (realtime_ns(), self.node.clone());
        match report {
            Report::Offset {
                master,
                sequence,
                offset,
                delay,
                authenticated,
            } => {
                let open = self.begin(*master, *sequence);
                open.line.offset_ns = Some(offset.as_ns_f64());
                open.line.path_delay_ns = Some(delay.as_ns_f64());
                open.fate = Some(if *authenticated {
                    Fate::Accepted
                } else {
                    Fate::Unsigned
                });
            }
            Report::PeerDelay {
                port,
                neighbour,
                delay,
                ..
            } => {
                let neighbour = self.names.port(*neighbour);
                (self.sink)(Line::Link {
                    t_ns,
                    node,
                    port: *port,
                    neighbour,
                    delay_ns: delay.as_ns_f64(),
                });
            }
            Report::State { state, grandmaster } => {
                if *state != PortState::Slave {
                    while !self.open.is_empty() {
                        self.close(0);
                    }
                }
                let grandmaster = grandmaster.map(|clock| self.names.of(clock));
                (self.sink)(Line::State {
                    t_ns,
                    node,
                    state: format!("{state:?}").to_lowercase(),
                    grandmaster,
                });
            }
            Report::Failure(failure) => self.failure(failure),
            Report::Relayed {
                ingress,
                egress,
                sequence,
                residence,
            } => (self.sink)(Line::Relay {
                t_ns,
                node,
                sequence: *sequence,
                ingress: *ingress,
                egress: *egress,
                residence_ns: residence.as_ns_f64(),
            }),
            Report::Dropped { .. } => {}
        }
    }

    fn settled(&mut self) {
        self.close_old();
    }

    fn rekeyed(&mut self, keys: &Loaded) {
        self.names = keys.names.clone();
        self.ring = Some(keys.ring.clone());
    }

    fn notice(&mut self, text: &str) {
        (self.sink)(Line::Notice {
            t_ns: realtime_ns(),
            node: self.node.clone(),
            text: text.to_owned(),
        });
    }

    fn ended(&mut self, counters: &Counters) {
        while !self.open.is_empty() {
            self.close(0);
        }
        let counters = counters.clone();
        (self.sink)(Line::Summary {
            t_ns: realtime_ns(),
            node: self.node.clone(),
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

/// Every honest signer signs what it received: those downstream of the broken
/// link are believed, those upstream were not shown.
fn judge(hops: &mut [HopLine], suspect: &Suspect) {
    let before = hops
        .iter()
        .position(|hop| hop.identity == suspect.before)
        .unwrap_or(hops.len());
    for (at, hop) in hops.iter_mut().enumerate() {
        hop.verdict = if suspect.names(hop.identity) {
            "suspect"
        } else if at < before {
            "unproven"
        } else {
            "holds"
        };
    }
}
