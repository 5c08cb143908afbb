//! One order for the events of several sessions, so that their clocks can move by skips alone.

use std::sync::Arc;
use std::time::Duration;

pub use timeloom_agreement::{EventKey, Turn};
use timeloom_time::{Instant, Virtual};

use crate::supervise::supervisor::Supervisor;

/// Order of the events of several sessions. A session acts only while it has the turn.
pub trait SharedOrder: Send + Sync {
    /// Returns this session's right to act; `None` while another session has the turn.
    fn turn(&self) -> Option<Turn>;

    /// Returns the earliest event of the other sessions; `None` if they have none.
    fn next_of_others(&self) -> Option<Instant<Virtual>>;

    /// Returns the instant before which nothing happens in any session; `None` if this session has
    /// the turn.
    fn idle_until(&self) -> Option<Instant<Virtual>>;

    /// Returns the rank of the programs of the host with this number, which is greater than 0.
    fn rank(&self, host: usize) -> u32;

    /// Ends the turn of this session. `next` is its next event; `None` if it will have none by
    /// itself. All that it has sent to other sessions must be on its way.
    fn hand_over(&self, next: Option<EventKey>);

    /// Asks for a turn, since the next event of this session may be earlier than it has announced:
    /// its threads have run because of input from outside all sessions.
    fn ask_for_turn(&self);

    /// Blocks until this session has the turn, for at most `patience`. Returns true if it has.
    fn await_turn(&self, patience: Duration) -> bool;
}

/// Moves the clock of a session that waits for its turn, so that it is not far behind those of the
/// others. No event of the session is passed.
pub(crate) fn pass_idle_time(supervisor: &Supervisor, order: &dyn SharedOrder) {
    if let (Some(until), Some(_change)) = (order.idle_until(), supervisor.try_change()) {
        supervisor.clock.skip_to(until, || {});
    }
}

/// Turn of a session in the order that it shares with others; a session that shares no order always
/// has the turn.
pub(crate) enum Acting {
    Alone,
    Ordered(Arc<dyn SharedOrder>, Turn),
}

impl Acting {
    /// Returns the session's present turn; `None` while another session has the turn.
    ///
    /// All that has arrived for this session until its turn was on its way to the session's threads
    /// before. So a caller that finds all threads at rest, and finds that none has run since it
    /// called this function, has seen the effects of these arrivals.
    pub(crate) fn of(supervisor: &Supervisor) -> Option<Self> {
        let Some(order) = supervisor.shared_order.get() else {
            return Some(Self::Alone);
        };
        let turn = order.turn()?;
        Some(Self::Ordered(Arc::clone(order), turn))
    }

    /// Returns true if the session may act at `at`: for the host with number `host`, or for a
    /// component of the supervisor. Otherwise hands the turn over, with this as the next event.
    pub(crate) fn allows(&self, at: Instant<Virtual>, host: Option<usize>) -> bool {
        let Self::Ordered(order, turn) = self else {
            return true;
        };
        let rank = host.map_or(0, |host| order.rank(host));
        self.allows_key(order, turn, EventKey { at, rank })
    }

    /// Returns true if the session may move its clock to `at` for a thread that computes, after all
    /// events at that instant. Otherwise hands the turn over.
    pub(crate) fn allows_step(&self, at: Instant<Virtual>) -> bool {
        let Self::Ordered(order, turn) = self else {
            return true;
        };
        let rank = u32::MAX;
        self.allows_key(order, turn, EventKey { at, rank })
    }

    fn allows_key(&self, order: &Arc<dyn SharedOrder>, turn: &Turn, event: EventKey) -> bool {
        let is_allowed = turn.allows(event);
        if !is_allowed {
            order.hand_over(Some(event));
        }
        is_allowed
    }

    /// Ends the turn of a session that has no next event. Returns false, without effect, if it
    /// shares no order.
    pub(crate) fn has_no_event(&self) -> bool {
        if let Self::Ordered(order, _) = self {
            order.hand_over(None);
        }
        matches!(self, Self::Ordered(..))
    }

    /// Returns the last instant to which the clock may move, if nothing happens on the way.
    pub(crate) fn until(&self) -> Instant<Virtual> {
        match self {
            Self::Alone => Instant::FAR_FUTURE,
            Self::Ordered(_, turn) => turn.until(),
        }
    }
}
