//! Records of the events on the line, which become the rows of `clock.parquet`.

use parking_lot::Mutex;
use std::sync::mpsc::Sender;

use timeloom_time::{Duration, Instant, Virtual, Wall};

/// Kind of a [`HoldRecord`], which determines the meaning of `t_wall` and `duration`.
///
/// For every kind, the duration ends at `t_wall`, so `t_wall - duration` is its beginning.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum RecordKind {
    /// The testbed was paused at `t_wall`. Pausing took `duration`.
    Pause,
    /// A requester got its hold at `t_wall`, `duration` after its request.
    Hold,
    /// A requester released its hold at `t_wall`. The hold had lasted `duration`.
    Release,
    /// The testbed ran again at `t_wall`. Resuming took `duration`.
    Resume,
}

impl RecordKind {
    /// Returns the word for this kind in the column `action`.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Pause => "pause",
            Self::Hold => "hold",
            Self::Release => "release",
            Self::Resume => "resume",
        }
    }
}

/// Record of an edge of the level, or of the beginning or end of one hold.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HoldRecord {
    /// Number of the record, counted from 0 by each recorder in the order of events.
    pub seq: u64,
    /// Virtual instant of the pause; the present virtual instant if nothing is paused.
    pub t_virtual: Instant<Virtual>,
    /// Wall time of the event, by the machine's monotonic clock.
    pub t_wall: Instant<Wall>,
    /// Name of the machine on which the event happened.
    pub host: String,
    /// Kind of the event.
    pub action: RecordKind,
    /// Name of the requester. For an edge, it is the one whose hold or release caused the edge.
    pub requester: String,
    /// Reason that the requester gave.
    pub reason: String,
    /// Duration of the action or of the hold; see [`RecordKind`].
    pub duration: Duration,
}

/// Destination of records. It gets them in the order of `seq`, while the bus is locked. It must
/// therefore be quick, must not panic, and must not call the bus.
pub trait Sink: Send {
    /// Processes one record.
    fn record(&mut self, record: HoldRecord);
}

impl Sink for Sender<HoldRecord> {
    /// Sends the record to the channel. If the receiver was dropped, the record is dropped, which
    /// is no failure.
    fn record(&mut self, record: HoldRecord) {
        let _ = self.send(record);
    }
}

/// Numbers records and passes them to the sink. The bus, which records holds, and its wire, which
/// records edges, share one recorder.
pub struct HoldRecorder {
    host: String,
    state: Mutex<(u64, Option<Box<dyn Sink>>)>,
}

impl HoldRecorder {
    /// Creates a recorder for the machine called `host`. Without a sink, records are dropped.
    pub fn new(host: impl Into<String>, sink: Option<Box<dyn Sink>>) -> Self {
        Self {
            host: host.into(),
            state: Mutex::new((0, sink)),
        }
    }

    /// Creates a record of an event at `t_wall`, and passes it to the sink.
    pub fn write(
        &self,
        action: RecordKind,
        t_virtual: Instant<Virtual>,
        t_wall: Instant<Wall>,
        duration: Duration,
        requester: &str,
        reason: &str,
    ) {
        let mut state = self.state.lock();
        let (next, sink) = &mut *state;
        let seq = *next;
        *next += 1;
        if let Some(sink) = sink {
            sink.record(HoldRecord {
                seq,
                t_virtual,
                t_wall,
                host: self.host.clone(),
                action,
                requester: requester.to_owned(),
                reason: reason.to_owned(),
                duration,
            });
        }
    }
}
