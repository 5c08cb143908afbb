//! WindowExchange with the engines that simulate the other parts of a network, in each iteration. It
//! receives their messages and sends outgoing packets. In exact mode it limits this engine to the
//! instants up to which the others have promised that no further packet arrives.

use std::io;

use crate::peering::{AdjacencyReport, Portal};
use timeloom_engine::{Engine, Pace};
use timeloom_net::{Owner, World};
use timeloom_sys::wall_now;
use timeloom_time::{ClockMap, Duration, Instant, Virtual, Wall};

use super::group::Exchanged;

/// Connection of a worker to the other engines.
pub(super) struct Meeting {
    portal: Portal,
    /// Number of processors. It determines whether polling for a promise is useful.
    cores: usize,
}

/// Longest wait for other engines before the worker checks its commands again.
const WAIT: Duration = Duration::from_ms(1);

impl Meeting {
    pub(super) fn new(portal: Portal) -> Self {
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        Self { portal, cores }
    }

    /// Receives the messages that have arrived; returns the last instant whose events may be
    /// handled.
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

    /// Marks the generation of engine `there` that began at `epoch` as dead. Messages that it sent
    /// before are received first.
    pub(super) fn mark_dead(&mut self, engine: &mut Engine<World>, there: Owner, epoch: u64) {
        // A connection that has failed has no more messages.
        let _ = self.portal.receive(engine, wall_now());
        self.portal.mark_dead(&mut engine.model, there, epoch);
    }

    /// Sends outgoing packets, and the instant up to which this engine has run.
    pub(super) fn send(&mut self, engine: &mut Engine<World>) -> io::Result<()> {
        self.portal.send(engine, wall_now())?;
        self.portal.promise(engine.now());
        Ok(())
    }

    /// Waits for those engines that have not yet promised that no further packet arrives up to
    /// `until`.
    pub(super) fn await_others(&self, until: Instant<Virtual>) {
        self.portal.wish(until);
        self.portal.await_news(WAIT, self.cores);
    }

    /// Prepares a sleep until the virtual instant `next`, by requesting the promises that are
    /// needed to handle events then. Returns the wall time at which the engine must wake up for the
    /// sake of the other engines. They wake it earlier if necessary. The caller must call
    /// [`Meeting::wake`] after the sleep.
    pub(super) fn doze(
        &self,
        next: Option<Instant<Virtual>>,
        map: Option<&ClockMap<Wall, Virtual>>,
    ) -> Instant<Wall> {
        let unsafe_yet = next.filter(|next| *next > self.portal.safe_until());
        if let Some(next) = unsafe_yet {
            self.portal.wish(next);
        }
        // Messages that arrive from here on wake the thread. Earlier ones are checked for below.
        let is_quiet = self.portal.doze();
        if !is_quiet || unsafe_yet.is_some_and(|next| self.portal.is_safe(next)) {
            return Instant::ZERO;
        }
        let wished = self.portal.wished();
        // While the clock is stopped, that instant is never reached.
        let wished = wished.and_then(|at| map?.first_reaching(at));
        let speak = self.portal.next_wake();
        wished.map_or(speak, |wished| wished.min(speak))
    }

    /// Makes input wake the sleeping thread again after [`Meeting::wake`]; returns false if there
    /// is some already.
    pub(super) fn listen(&self) -> bool {
        self.portal.doze()
    }

    /// Ends what [`Meeting::doze`] prepared; see [`Portal::wake`].
    pub(super) fn wake(&self) {
        self.portal.wake();
    }

    /// Returns, for each other engine, the number of packets sent to it and of those received from
    /// it.
    pub(super) fn exchanged(&self) -> impl Iterator<Item = Exchanged> {
        let peers = self.portal.counted();
        peers.map(|(there, stats)| Exchanged {
            there,
            sent: stats.packets_sent,
            received: stats.packets_received,
        })
    }

    /// Returns the earliest arrival of the packets sent to machines with which this one acts in
    /// turns, since the last call; `None` if none was sent.
    pub(super) fn take_earliest(&mut self) -> Option<Instant<Virtual>> {
        self.portal.take_earliest()
    }

    pub(super) fn report(&self) -> Vec<AdjacencyReport> {
        self.portal.adjacencies().collect()
    }

    /// Sends a farewell to the other engines.
    pub(super) fn close(&mut self) {
        // A connection that has failed needs no farewell.
        let _ = self.portal.close(wall_now());
    }
}
