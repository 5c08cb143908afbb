//! Portals of an emulation, each with the host of the model that it represents.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::Arc;

use timeloom_fabric::{LossDetection, LossState};
use timeloom_net::{Acknowledgement, Frame, Node, SentSegment, TcpTimerStats};
use timeloom_sys::clock::wall_now;
use timeloom_time::{Duration, Instant, Wall};

use crate::join::Joiner;
use crate::repair::Repairs;
use crate::{FrameFilter, Port, PortalError, ReceiveResult, StampLog, TxStatus};

/// Statistics of a portal.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PortReport {
    /// Name of the host that the portal represents.
    pub name: String,
    /// Number of frames received from outside. A train counts as one frame.
    pub received: u64,
    /// Number of bytes in the received frames.
    pub received_bytes: u64,
    /// Number of frames sent to the outside.
    pub sent: u64,
    /// Number of bytes in the sent frames.
    pub sent_bytes: u64,
    /// Number of inputs from outside that were not valid frames.
    pub malformed: u64,
    /// Number of frames that the filters dropped.
    pub filtered: u64,
    /// Number of frames that the kernel outside did not accept.
    pub refused: u64,
    /// Number of frames that the kernel dropped because the emulation's thread was too slow.
    pub dropped_before: u64,
    /// Number of frames that arrived before this engine started and were discarded
    /// ([`EmulationOptions::late`](crate::EmulationOptions::late)).
    pub missed: u64,
    /// Activity of the TCP timers, if the simulated network keeps them
    /// ([`EmulationOptions::tcp_timers`](crate::EmulationOptions::tcp_timers)).
    pub tcp_timers: Option<TcpTimerStats>,
    /// Number of times that the kernel behind the portal did not decide in time which segments were
    /// lost ([`Portals::wait_for`]).
    pub undecided: u64,
    /// True if the interface outside was removed.
    pub gone: bool,
}

/// Portal with its host, its filters and its report.
pub(crate) struct Attachment {
    pub(crate) node: Node,
    pub(crate) port: Box<dyn Port>,
    pub(crate) inward: FrameFilter,
    outward: FrameFilter,
    joiner: Joiner,
    pub(crate) joins: bool,
    pub(crate) report: PortReport,
    /// Network card that stamps the frames; `None` if the host has none.
    pub(crate) card: Option<Arc<StampLog>>,
    repairs: Repairs,
    /// Loss detection of the kernel behind the portal; `None` if the network does not wait for it.
    detection: Option<LossDetection>,
    /// Connections with a gap (local end, remote end) to which a frame was delivered, each with the
    /// instant of the last delivery.
    undecided: BTreeMap<[SocketAddr; 2], Instant<Wall>>,
}

impl Attachment {
    /// Receives and discards the frames that have arrived until now.
    pub(crate) fn miss(&mut self, buffer: &mut Vec<u8>) {
        for _ in 0..MISSED {
            match self.port.receive(buffer) {
                Ok(ReceiveResult::Frame(..) | ReceiveResult::Malformed) => self.report.missed += 1,
                // The worker detects by itself that an interface was removed.
                Ok(ReceiveResult::Nothing) | Err(_) => return,
            }
        }
    }

    /// Sends a frame of the model to the outside, possibly joined with others of the same
    /// iteration.
    pub(crate) fn give(&mut self, frame: &Frame<'_>) {
        if !self.outward.is_empty() && !self.outward.passes(frame.head) {
            self.report.filtered += 1;
            return;
        }
        let (port, report) = (&mut self.port, &mut self.report);
        let card = self.card.as_deref();
        let mut send = |frame: &Frame<'_>, frames| send(&mut **port, card, report, frame, frames);
        if self.joins {
            self.joiner.add(frame, send);
        } else {
            send(frame, 1);
        }
    }

    /// Records that a frame for the connection between `ends` (local and remote) was delivered,
    /// after which the kernel may have to decide which segments are lost.
    ///
    /// If reordering could explain what an acknowledgement shows, the kernel decides by a timer in
    /// the machine's time. In that time virtual time could skip many round trips, and whether the
    /// next acknowledgement or the timer came first would be left to chance.
    pub(crate) fn note_gap(&mut self, ends: [SocketAddr; 2]) {
        if self.detection.is_some() {
            self.undecided.insert(ends, wall_now());
        }
    }

    /// Returns true while the host's kernel has to decide which segments are lost.
    pub(crate) fn is_undecided(&mut self) -> bool {
        let Some(detection) = self
            .detection
            .as_mut()
            .filter(|_| !self.undecided.is_empty())
        else {
            return false;
        };
        let (now, report) = (wall_now(), &mut self.report);
        self.undecided.retain(|&[local, remote], since| {
            let state = detection.state(local, remote).unwrap_or(LossState {
                is_undecided: true,
                ..LossState::default()
            });
            let until = *since + longest_reordering(&state);
            let is_given_up = state.is_undecided && until < now;
            report.undecided += u64::from(is_given_up);
            state.is_undecided && !is_given_up
        });
        !self.undecided.is_empty()
    }

    /// Returns the connections about which the kernel has not decided yet, as of the last question
    /// to it (local end, remote end).
    pub(crate) fn undecided(&self) -> impl Iterator<Item = [SocketAddr; 2]> {
        self.undecided.keys().copied()
    }

    /// Records that a segment was read from the portal, in a run that must be reproducible.
    pub(crate) fn note_sent(&mut self, segment: &SentSegment) {
        self.repairs.note_sent(segment, wall_now());
    }

    /// Returns the instant before which an acknowledgement may not be delivered in a run that must
    /// be reproducible; `None` if it need not wait.
    pub(crate) fn not_before(&mut self, arriving: &Acknowledgement) -> Option<Instant<Wall>> {
        let [local, remote] = arriving.ends;
        let detection = &mut self.detection;
        self.repairs.not_before(arriving, || {
            let state = detection.as_mut().map(|it| it.state(local, remote));
            let state = state.and_then(Result::ok).unwrap_or_default();
            state.shortest_round_trip
        })
    }

    /// Ends an iteration by sending the frames that are held.
    pub(crate) fn flush(&mut self) {
        let (port, report) = (&mut self.port, &mut self.report);
        let card = self.card.as_deref();
        self.joiner
            .flush(|frame, frames| send(&mut **port, card, report, frame, frames));
        if self.port.flush().is_err() {
            self.report.gone = true;
        }
    }
}

/// Returns the longest wait for a reordering timer. The timer takes the last round trip and up to
/// another one, in the machine's time, and two ticks (of 10 ms at most); on a busy machine it is
/// late.
fn longest_reordering(state: &LossState) -> Duration {
    let round_trip = state.round_trip.max(state.shortest_round_trip);
    LATE + round_trip + round_trip
}

/// Time by which a timer of the kernel may be late on a busy machine.
const LATE: Duration = Duration::from_ms(500);

/// Maximum number of frames to discard. It exceeds what a kernel queues for a portal, so all
/// earlier frames are discarded, but a flood does not keep the engine from starting.
const MISSED: usize = 1 << 16;

/// Sends a frame that was joined from `frames` frames of the model.
fn send(
    port: &mut dyn Port,
    card: Option<&StampLog>,
    report: &mut PortReport,
    frame: &Frame<'_>,
    frames: u64,
) {
    let sent = match card {
        None => port.send(frame),
        Some(card) => card.deliver(frame.first_bit, [frame.head, frame.rest], || {
            port.send(frame)
        }),
    };
    match sent {
        Ok(TxStatus::Done) => {
            report.sent += 1;
            report.sent_bytes += (frame.head.len() + frame.rest.len()) as u64;
        }
        Ok(TxStatus::Refused) => report.refused += frames,
        Err(_) => report.gone = true,
    }
}

/// Portals to serve, each with the host of the model that it represents.
#[derive(Default)]
pub struct Portals(pub(crate) Vec<Attachment>);

impl Portals {
    /// Creates an empty list.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds `port` as the portal of host `node`, which is called `name` in reports. `inward`
    /// filters frames from outside, and `outward` frames of the model.
    ///
    /// # Errors
    /// Fails if the host already has a portal.
    pub fn join(
        &mut self,
        node: Node,
        name: &str,
        port: Box<dyn Port>,
        [inward, outward]: [FrameFilter; 2],
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
            repairs: Repairs::default(),
            detection: None,
            card: None,
            undecided: BTreeMap::new(),
            report: PortReport {
                name: name.to_owned(),
                ..PortReport::default()
            },
        });
        Ok(())
    }

    /// Gives host `node` a network card that stamps frames.
    pub fn stamp(&mut self, node: Node, card: Arc<StampLog>) {
        if let Some(attachment) = self.0.iter_mut().find(|it| it.node == node) {
            attachment.card = Some(card);
        }
    }

    /// Lets the network wait until the kernel behind the portal of host `node` has decided which
    /// segments are lost. This is necessary if virtual time may skip meanwhile.
    pub fn wait_for(&mut self, node: Node, detection: LossDetection) {
        if let Some(attachment) = self.0.iter_mut().find(|it| it.node == node) {
            attachment.detection = Some(detection);
        }
    }
}
