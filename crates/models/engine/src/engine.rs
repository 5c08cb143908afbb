//! Event loop: takes the first event and hands it to the model, repeatedly.

use timeloom_time::{Duration, Instant, Virtual};

use crate::queue::{EventQueue, Wheel};
use crate::{Event, NodeId};

/// Model that an engine runs. A model holds all its state itself; it reads no clock and uses only
/// the randomness that it was given.
pub trait Model<Q: EventQueue = Wheel> {
    /// Handles an event: `event.token` at `event.node`, at `agenda.now()`.
    fn handle(&mut self, event: Event, agenda: &mut Agenda<Q>);
}

/// Schedule of future events, filled by a model.
#[derive(Debug, Default)]
pub struct Agenda<Q: EventQueue = Wheel> {
    queue: Q,
    now: Instant<Virtual>,
    seq: u64,
}

impl<Q: EventQueue> Agenda<Q> {
    /// Returns the instant that is being handled.
    #[inline]
    pub fn now(&self) -> Instant<Virtual> {
        self.now
    }

    /// Schedules `token` for `node` at `at`.
    ///
    /// # Panics
    ///
    /// Panics if `at` has passed: a model that schedules into the past is wrong.
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

/// Model with its agenda.
#[derive(Debug, Default)]
pub struct Engine<M, Q: EventQueue = Wheel> {
    /// The model. Its owner may read and change it between two runs.
    pub model: M,
    agenda: Agenda<Q>,
    handled: u64,
}

impl<M: Model<Q>, Q: EventQueue> Engine<M, Q> {
    /// Returns an engine at the zero of virtual time without events.
    pub fn new(model: M) -> Self {
        Self {
            model,
            agenda: Agenda::default(),
            handled: 0,
        }
    }

    /// Handles every event due at `limit` or earlier, at most `budget` of them. Returns the number
    /// of handled events; fewer than `budget` means that the engine has reached `limit`.
    pub fn run_until(&mut self, limit: Instant<Virtual>, budget: u64) -> u64 {
        for done in 0..budget {
            let Some(event) = self.agenda.queue.pop_due(limit) else {
                // FAR_FUTURE is not an instant that can be reached.
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

    /// Adds an event from outside: from a portal, a peer, or a start of traffic.
    ///
    /// An event for a past instant is handled at [`Engine::now`] instead, and the result is the
    /// delay.
    pub fn inject(&mut self, at: Instant<Virtual>, node: NodeId, token: u32) -> Duration {
        let late = self.agenda.now - at;
        let at = at.max(self.agenda.now);
        self.agenda.schedule(at, node, token);
        late.max(Duration::ZERO)
    }

    /// Lets the model act now, outside of any event: to start it, for example.
    pub fn with<R>(&mut self, act: impl FnOnce(&mut M, &mut Agenda<Q>) -> R) -> R {
        act(&mut self.model, &mut self.agenda)
    }

    /// Returns the instant of the next event; `None` if there is none.
    pub fn next_wake(&self) -> Option<Instant<Virtual>> {
        self.agenda.queue.first_at()
    }

    /// Returns the instant up to which the model has run.
    pub fn now(&self) -> Instant<Virtual> {
        self.agenda.now
    }

    /// Returns the number of events handled so far.
    pub fn handled(&self) -> u64 {
        self.handled
    }
}
