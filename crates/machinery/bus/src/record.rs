//! Events on the wire: the rows of `clock.parquet`.

use std::sync::mpsc::Sender;
use std::sync::{Mutex, PoisonError};

use timeloom_time::{Duration, Instant, Virtual, Wall};

/// Kind of a [`Record`], with the meaning of its two wall quantities.
///
/// For every action, `t_wall - duration` is its beginning: the duration always ends at the stated
/// instant.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Action {
    /// The testbed was paused at `t_wall`; stopping it took `duration`.
    Pause,
    /// A requester got its hold at `t_wall`, `duration` after asking for it.
    Hold,
    /// A requester released at `t_wall` a hold of `duration`.
    Release,
    /// The testbed ran again at `t_wall`; starting it took `duration`.
    Resume,
}

impl Action {
    /// Returns the word in the `action` column.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Pause => "pause",
            Self::Hold => "hold",
            Self::Release => "release",
            Self::Resume => "resume",
        }
    }
}

/// Row: an edge of the level, or the beginning or end of one hold.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Record {
    /// Number of the row of one recorder from 0, in the order of events.
    pub seq: u64,
    /// Frozen virtual instant (the present one if nothing is frozen).
    pub t_virtual: Instant<Virtual>,
    /// Time on the machine's monotonic clock.
    pub t_wall: Instant<Wall>,
    /// Machine of the event.
    pub host: String,
    /// Kind of the event.
    pub action: Action,
    /// Requester; for an edge, the one whose hold or release made it.
    pub requester: String,
    /// Reason, in the requester's words.
    pub reason: String,
    /// Duration of the action or of the hold; see [`Action`].
    pub duration: Duration,
}

/// Destination of records. Called in order of `seq`, while the bus is locked: it must be quick,
/// must not panic and must not call the bus.
pub trait Sink: Send {
    /// Takes one record.
    fn record(&mut self, record: Record);
}

impl Sink for Sender<Record> {
    /// A receiver that is gone wants no more records; that is not a failure.
    fn record(&mut self, record: Record) {
        let _ = self.send(record);
    }
}

/// Numbers records and passes them to the sink. Shared by the bus, which records holds, and its
/// wire, which records edges.
pub struct Recorder {
    host: String,
    state: Mutex<(u64, Option<Box<dyn Sink>>)>,
}

impl Recorder {
    /// Creates a recorder of machine `host`, with a sink or without.
    pub fn new(host: impl Into<String>, sink: Option<Box<dyn Sink>>) -> Self {
        Self {
            host: host.into(),
            state: Mutex::new((0, sink)),
        }
    }

    /// Writes one record that ends at `t_wall`.
    pub fn write(
        &self,
        action: Action,
        t_virtual: Instant<Virtual>,
        t_wall: Instant<Wall>,
        duration: Duration,
        requester: &str,
        reason: &str,
    ) {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let (next, sink) = &mut *state;
        let seq = *next;
        *next += 1;
        if let Some(sink) = sink {
            sink.record(Record {
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
