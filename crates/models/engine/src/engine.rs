//! Event loop: repeatedly takes the first event and passes it to the model.

use timeloom_time::{Duration, Instant, Virtual};

use crate::queue::{EventQueue, Wheel};
use crate::{Event, NodeId};

/// Model that an engine runs. A model holds all its state itself, reads no clock, and takes random
/// numbers only from generators that it was given.
pub trait Model<Q: EventQueue = Wheel> {
    /// Handles `event`: the node `event.node` receives `event.token` at the instant `agenda.now()`.
    fn handle(&mut self, event: Event, agenda: &mut Agenda<Q>);
}

/// Future events of an engine. The model adds events while it handles one.
#[derive(Debug, Default)]
pub struct Agenda<Q: EventQueue = Wheel> {
    queue: Q,
    now: Instant<Virtual>,
    seq: u64,
}

impl<Q: EventQueue> Agenda<Q> {
    /// Returns the virtual instant of the event that is being handled.
    #[inline]
    pub fn now(&self) -> Instant<Virtual> {
        self.now
    }

    /// Schedules an event: `node` receives `token` at `at`.
    ///
    /// # Panics
    ///
    /// Panics if `at` is earlier than [`Agenda::now`]: a model that schedules into the past is
    /// wrong.
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

/// Model together with its future events.
#[derive(Debug, Default)]
pub struct Engine<M, Q: EventQueue = Wheel> {
    /// The model. Callers may read and change it between two runs.
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

    /// Handles the events due at `limit` or earlier, at most `budget` of them. Returns the number
    /// of handled events; a number below `budget` means that the engine has reached `limit`.
    pub fn run_until(&mut self, limit: Instant<Virtual>, budget: u64) -> u64 {
        for done in 0..budget {
            let Some(event) = self.agenda.queue.pop_due(limit) else {
                // FAR_FUTURE means "no limit", so the engine does not advance to it.
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

    /// Adds an event that originates outside of the model, such as a packet from a portal or a
    /// peer, or the start of a flow.
    ///
    /// If `at` has passed, the event is handled at [`Engine::now`] instead. Returns the difference,
    /// which is zero for an event in time.
    pub fn inject(&mut self, at: Instant<Virtual>, node: NodeId, token: u32) -> Duration {
        let late = self.agenda.now - at;
        let at = at.max(self.agenda.now);
        self.agenda.schedule(at, node, token);
        late.max(Duration::ZERO)
    }

    /// Calls `act` with the model and its agenda at the present instant, outside of any event; used
    /// to start the model, for example.
    pub fn with<R>(&mut self, act: impl FnOnce(&mut M, &mut Agenda<Q>) -> R) -> R {
        act(&mut self.model, &mut self.agenda)
    }

    /// Returns the instant of the next event; `None` if there is none.
    pub fn next_wake(&self) -> Option<Instant<Virtual>> {
        self.agenda.queue.first_at()
    }

    /// Returns the virtual instant up to which the model has run.
    pub fn now(&self) -> Instant<Virtual> {
        self.agenda.now
    }

    /// Returns the number of events handled so far.
    pub fn handled(&self) -> u64 {
        self.handled
    }
}
