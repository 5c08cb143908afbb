//! What an engine that has a part of a network does with the engines of the others, turn by
//! turn: take in what they sent, send what left, and, where all wait for one another, go no
//! further than they have promised.

use std::io;

use timeloom_engine::{Engine, Pace};
use timeloom_net::{Owner, World};
use timeloom_peering::{AdjacencyReport, Portal};
use timeloom_sys::wall_now;
use timeloom_time::{ClockMap, Duration, Instant, Virtual, Wall};

/// The other engines.
pub(super) struct Meeting {
    portal: Portal,
    /// Processors, which decide whether looking for a promise is worth while.
    cores: usize,
}

/// The longest wait for the others before commands are looked at again.
const WAIT: Duration = Duration::from_ms(1);

impl Meeting {
    pub(super) fn new(portal: Portal) -> Self {
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        Self { portal, cores }
    }

    /// Takes in what has come; gives back the last instant that may be handled.
    pub(super) fn receive(
        &mut self,
        engine: &mut Engine<World>,
        pace: Pace,
        now: Instant<Wall>,
    ) -> io::Result<Instant<Virtual>> {
        self.portal.follow(pace);
        self.portal.receive(engine, now)?;
        Ok(self.portal.safe_until())
    }

    /// Takes the life of an engine that began at `epoch` for gone. What it has said comes first.
    pub(super) fn bury(&mut self, engine: &mut Engine<World>, there: Owner, epoch: u64) {
        // A line that has failed says nothing any more.
        let _ = self.portal.receive(engine, wall_now());
        self.portal.bury(&mut engine.model, there, epoch);
    }

    /// Sends what has left, and says how far the engine has lived.
    pub(super) fn send(&mut self, engine: &mut Engine<World>) -> io::Result<()> {
        self.portal.send(engine, wall_now())?;
        self.portal.promise(engine.now());
        Ok(())
    }

    /// Waits for the others, which have not promised yet that nothing comes up to `until`.
    pub(super) fn await_others(&self, until: Instant<Virtual>) {
        self.portal.wish(until);
        self.portal.await_news(WAIT, self.cores);
    }

    /// Before a sleep until `next` is due: asks the others for what is needed to handle it
    /// then. Says when the engine has to be up for their sake; they ring it sooner if they
    /// want that. To be followed by [`Meeting::wake`].
    pub(super) fn doze(
        &self,
        next: Option<Instant<Virtual>>,
        map: Option<&ClockMap<Wall, Virtual>>,
    ) -> Instant<Wall> {
        let unsafe_yet = next.filter(|next| *next > self.portal.safe_until());
        if let Some(next) = unsafe_yet {
            self.portal.wish(next);
        }
        // What they do from here on rings; what they did before is seen below.
        let is_quiet = self.portal.doze();
        if !is_quiet || unsafe_yet.is_some_and(|next| self.portal.is_safe(next)) {
            return Instant::ZERO;
        }
        let wished = self.portal.wished();
        // A clock that stands brings nobody there.
        let wished = wished.and_then(|at| map?.first_reaching(at));
        let speak = self.portal.next_wake();
        wished.map_or(speak, |wished| wished.min(speak))
    }

    /// See [`Portal::wake`].
    pub(super) fn wake(&self) {
        self.portal.wake();
    }

    pub(super) fn report(&self) -> Vec<AdjacencyReport> {
        self.portal.adjacencies().collect()
    }

    /// Says farewell.
    pub(super) fn close(&mut self) {
        // A line that has failed needs no farewell.
        let _ = self.portal.close(wall_now());
    }
}
