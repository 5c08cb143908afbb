//! Exchange with the engines of the other parts of a network, in each iteration: receives their
//! messages, sends outgoing packets and, in exact mode, limits this engine to the instants that the
//! others have promised.

use std::io;

use timeloom_engine::{Engine, Pace};
use timeloom_net::{Owner, World};
use timeloom_peering::{AdjacencyReport, Portal};
use timeloom_sys::wall_now;
use timeloom_time::{ClockMap, Duration, Instant, Virtual, Wall};

use super::group::Exchanged;

/// Connection to the other engines.
pub(super) struct Meeting {
    portal: Portal,
    /// Number of processors; it decides whether polling for a promise is worthwhile.
    cores: usize,
}

/// Longest wait for the others before the commands are checked again.
const WAIT: Duration = Duration::from_ms(1);

impl Meeting {
    pub(super) fn new(portal: Portal) -> Self {
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        Self { portal, cores }
    }

    /// Receives what has arrived; returns the last instant that may be handled. No other engine
    /// acts before `floor`, if it is known.
    pub(super) fn receive(
        &mut self,
        engine: &mut Engine<World>,
        pace: Pace,
        now: Instant<Wall>,
        floor: Option<Instant<Virtual>>,
    ) -> io::Result<Instant<Virtual>> {
        self.portal.follow(pace);
        if let Some(floor) = floor {
            self.portal.raise_floor(floor);
        }
        self.portal.receive(engine, now)?;
        Ok(self.portal.safe_until())
    }

    /// Marks the generation of an engine that began at `epoch` as dead. Its earlier messages are
    /// received first.
    pub(super) fn bury(&mut self, engine: &mut Engine<World>, there: Owner, epoch: u64) {
        // A failed line has no more messages.
        let _ = self.portal.receive(engine, wall_now());
        self.portal.bury(&mut engine.model, there, epoch);
    }

    /// Sends outgoing packets and the instant up to which the engine has run.
    pub(super) fn send(&mut self, engine: &mut Engine<World>) -> io::Result<()> {
        self.portal.send(engine, wall_now())?;
        self.portal.promise(engine.now());
        Ok(())
    }

    /// Waits for the other engines, which have not yet promised that nothing arrives up to `until`.
    pub(super) fn await_others(&self, until: Instant<Virtual>) {
        self.portal.wish(until);
        self.portal.await_news(WAIT, self.cores);
    }

    /// Prepares a sleep until the instant `next`, if the promises needed to handle it then must be
    /// requested.
    /// Returns the time at which the engine must wake up for the other engines; they signal it
    /// earlier if necessary. Must be followed by [`Meeting::wake`].
    pub(super) fn doze(
        &self,
        next: Option<Instant<Virtual>>,
        map: Option<&ClockMap<Wall, Virtual>>,
    ) -> Instant<Wall> {
        let unsafe_yet = next.filter(|next| *next > self.portal.safe_until());
        if let Some(next) = unsafe_yet {
            self.portal.wish(next);
        }
        // Messages sent from here on wake the thread; earlier ones are checked for below.
        let is_quiet = self.portal.doze();
        if !is_quiet || unsafe_yet.is_some_and(|next| self.portal.is_safe(next)) {
            return Instant::ZERO;
        }
        let wished = self.portal.wished();
        // A stopped clock never reaches that instant.
        let wished = wished.and_then(|at| map?.first_reaching(at));
        let speak = self.portal.next_wake();
        wished.map_or(speak, |wished| wished.min(speak))
    }

    /// Makes input wake the sleeping thread again after [`Meeting::wake`]; returns false if there is
    /// some already.
    pub(super) fn listen(&self) -> bool {
        self.portal.doze()
    }

    /// See [`Portal::wake`].
    pub(super) fn wake(&self) {
        self.portal.wake();
    }

    /// Returns, for each other engine, the number of packets sent to it and of those received from
    /// it.
    pub(super) fn exchanged(&self) -> impl Iterator<Item = Exchanged> {
        let peers = self.portal.peers();
        peers.map(|(there, _, stats)| Exchanged {
            there,
            sent: stats.packets_sent,
            received: stats.packets_received,
        })
    }

    pub(super) fn report(&self) -> Vec<AdjacencyReport> {
        self.portal.adjacencies().collect()
    }

    /// Sends the farewell.
    pub(super) fn close(&mut self) {
        // A failed line needs no farewell.
        let _ = self.portal.close(wall_now());
    }
}
