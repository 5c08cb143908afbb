//! The loop: take the first event, hand it to the model, again.

use timeloom_time::{Duration, Instant, Virtual};

use crate::queue::{EventQueue, Wheel};
use crate::{Event, NodeId};

/// What an engine runs. A model holds all its state itself; it neither reads a
/// clock nor keeps randomness that it was not given.
pub trait Model<Q: EventQueue = Wheel> {
    /// Something is due: `event.token` at `event.node`, at `agenda.now()`.
    fn handle(&mut self, event: Event, agenda: &mut Agenda<Q>);
}

/// Where a model writes what shall happen later.
#[derive(Debug, Default)]
pub struct Agenda<Q: EventQueue = Wheel> {
    queue: Q,
    now: Instant<Virtual>,
    seq: u64,
}

impl<Q: EventQueue> Agenda<Q> {
    /// The instant that is being handled.
    #[inline]
    pub fn now(&self) -> Instant<Virtual> {
        self.now
    }

    /// Hands `token` to `node` at `at`.
    ///
    /// # Panics
    ///
    /// When `at` has passed: a model that schedules into the past is wrong.
    #[inline]
    pub fn schedule(&mut self, at: Instant<Virtual>, node: NodeId, token: u32) {
        assert!(at >= self.now, "{at:?} has passed, it is {:?}", self.now);
        self.queue.push(Event {
            at,
            seq: self.seq,
            node,
            token,
        });
        self.seq += 1;
    }
}

/// A model and its agenda.
#[derive(Debug, Default)]
pub struct Engine<M, Q: EventQueue = Wheel> {
    /// The model. Its owner may look at it, and change it, between two runs.
    pub model: M,
    agenda: Agenda<Q>,
    handled: u64,
}

impl<M: Model<Q>, Q: EventQueue> Engine<M, Q> {
    /// An engine at the zero of virtual time with nothing to do.
    pub fn new(model: M) -> Self {
        Self {
            model,
            agenda: Agenda::default(),
            handled: 0,
        }
    }

    /// Handles every event due at `limit` or earlier, at most `budget` of
    /// them. Gives back how many it handled; fewer than `budget` means that
    /// the engine now stands at `limit`.
    pub fn run_until(&mut self, limit: Instant<Virtual>, budget: u64) -> u64 {
        for done in 0..budget {
            let Some(event) = self.agenda.queue.pop_due(limit) else {
                // For ever is not an instant to stand at.
                if limit != Instant::FAR_FUTURE {
                    self.agenda.now = self.agenda.now.max(limit);
                }
                self.handled += done;
                return done;
            };
            self.agenda.now = event.at;
            self.model.handle(event, &mut self.agenda);
        }
        self.handled += budget;
        budget
    }

    /// Adds an event from outside: a portal, a peer, a start of traffic.
    ///
    /// An instant that has passed cannot be given back. The event is handled
    /// at [`Engine::now`] instead, and the answer says by how much it came too late.
    pub fn inject(&mut self, at: Instant<Virtual>, node: NodeId, token: u32) -> Duration {
        let late = self.agenda.now - at;
        let at = at.max(self.agenda.now);
        self.agenda.schedule(at, node, token);
        late.max(Duration::ZERO)
    }

    /// Lets the model act now, outside of any event: to start it, for one.
    pub fn with<R>(&mut self, act: impl FnOnce(&mut M, &mut Agenda<Q>) -> R) -> R {
        act(&mut self.model, &mut self.agenda)
    }

    /// When the next event is due; `None` when nothing waits.
    pub fn next_wake(&self) -> Option<Instant<Virtual>> {
        self.agenda.queue.first_at()
    }

    /// The instant up to which the model has lived.
    pub fn now(&self) -> Instant<Virtual> {
        self.agenda.now
    }

    /// Events handled so far.
    pub fn handled(&self) -> u64 {
        self.handled
    }
}
