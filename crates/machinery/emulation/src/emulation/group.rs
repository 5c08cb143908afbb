//! Engines of one network as one component: their common rest and their next event.
//!
//! A clock that skips must know when the network acts next, and that nothing happens in it before.
//! No engine knows that alone: a packet on its way to another engine is in neither. So each engine
//! states, when it falls asleep, its next event and the numbers of packets that it has sent to each
//! other engine and received from it. When all are asleep and every packet sent was received, the
//! network *rests*, and its next event is the earliest of all.
//!
//! **What follows for exact engines.** Until the first engine wakes, no engine has sent anything,
//! and none acts before the next event or the present, whichever is earlier. That instant is the
//! *floor*: a promise of all engines at once. After a skip each engine therefore runs up to the
//! present without waiting for promises, whose number would grow with the time skipped over.
//!
//! An engine of its own is a group of one.

use parking_lot::{Mutex, MutexGuard};
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

use timeloom_net::Owner;
use timeloom_time::{Instant, Virtual};

use crate::FollowedClock;

/// Engines whose next event is announced to a clock as one ([`FollowedClock::asleep`]).
#[derive(Clone)]
pub struct EngineGroup(Arc<Shared>);

/// Place of an engine in its group. Dropping it takes the engine out of the group.
pub struct GroupMember {
    shared: Arc<Shared>,
    here: usize,
}

/// Reason why the engines of a group do not rest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unrest {
    /// This engine does not sleep.
    Awake(Owner),
    /// The kernel of a host behind this engine has not decided which segments of a connection are
    /// lost (local end, remote end).
    Undecided(Owner, [SocketAddr; 2]),
    /// A packet is on its way from the first engine to the second.
    Crossing(Owner, Owner),
}

/// Packets exchanged with another engine, both as counted here.
#[derive(Clone, Copy, Debug)]
pub(super) struct Exchanged {
    pub(super) there: Owner,
    pub(super) sent: u64,
    pub(super) received: u64,
}

struct Shared {
    clock: Box<dyn FollowedClock + Sync>,
    state: Mutex<State>,
    /// Instant before which no engine acts, virtual ns.
    floor: AtomicI64,
}

#[derive(Debug, Default)]
struct State {
    engines: Vec<Seat>,
    rests: bool,
}

/// State of an engine, as known to the group.
#[derive(Debug, Default)]
struct Seat {
    /// True while the engine sleeps.
    sleeps: bool,
    /// True for an engine that has ended or died: nothing comes from it any more.
    is_gone: bool,
    /// Its next event, as of its last sleep.
    next: Option<Instant<Virtual>>,
    /// Connections about whose losses the hosts' kernels had not decided when the engine was last
    /// about to sleep (local end, remote end).
    undecided: Vec<[SocketAddr; 2]>,
    /// Packets by other engine, as of its last sleep.
    sent: Vec<u64>,
    received: Vec<u64>,
}

impl EngineGroup {
    /// Creates the group of engines 0 to `engines` − 1, which all follow `clock`.
    pub fn new(engines: Owner, clock: Box<dyn FollowedClock + Sync>) -> Self {
        let count = usize::from(engines);
        let seat = || Seat {
            sent: vec![0; count],
            received: vec![0; count],
            ..Seat::default()
        };
        let state = State {
            engines: (0..count).map(|_| seat()).collect(),
            rests: false,
        };
        Self(Arc::new(Shared {
            clock,
            state: Mutex::new(state),
            floor: AtomicI64::new(0),
        }))
    }

    /// Returns the place of engine `here`, for its [`EmulationOptions`](crate::EmulationOptions).
    ///
    /// # Panics
    /// Panics if the group has no such engine.
    pub fn member(&self, here: Owner) -> GroupMember {
        let here = usize::from(here);
        assert!(here < self.0.lock().engines.len(), "no engine {here}");
        GroupMember {
            shared: Arc::clone(&self.0),
            here,
        }
    }

    /// Returns the reasons why the engines do not rest; empty if they do. Each engine states a few
    /// connections at most.
    pub fn unrest(&self) -> Vec<Unrest> {
        let state = self.0.lock();
        match state.rests {
            true => Vec::new(),
            false => state.unrest(),
        }
    }

    /// Returns true if all engines sleep and no packet is on its way from one to another.
    pub(super) fn rests(&self) -> bool {
        self.0.lock().rests
    }

    /// Announces the next event of a group that still rests, after [`GroupMember::refresh`].
    pub(super) fn announce(&self) {
        let state = self.0.lock();
        if state.rests {
            self.0.clock.asleep(state.next());
        }
    }
}

impl GroupMember {
    /// Returns the instant before which no engine of the group sends anything that it has not sent
    /// yet.
    pub(super) fn floor(&self) -> Instant<Virtual> {
        Instant::from_ns(self.shared.floor.load(Ordering::SeqCst))
    }

    /// Records that the engine falls asleep until its event at `next` or until input arrives. Its
    /// state must not change before [`GroupMember::awake`].
    pub(super) fn asleep(
        &self,
        next: Option<Instant<Virtual>>,
        exchanged: impl Iterator<Item = Exchanged>,
    ) {
        let mut state = self.shared.lock();
        state.engines[self.here].set(next, exchanged);
        state.engines[self.here].sleeps = true;
        state.engines[self.here].undecided.clear();
        self.shared.check(&mut state);
    }

    /// Records the connections about whose losses the hosts' kernels have not decided, so that the
    /// engine does not sleep.
    pub(super) fn undecided(&self, connections: impl Iterator<Item = [SocketAddr; 2]>) {
        let mut state = self.shared.lock();
        let undecided = &mut state.engines[self.here].undecided;
        undecided.clear();
        undecided.extend(connections.take(MOST_STATED));
    }

    /// Records that the engine has woken up. It has read the clock, which showed `now`, and has not
    /// acted since.
    pub(super) fn awake(&self, now: Instant<Virtual>) {
        let mut state = self.shared.lock();
        state.engines[self.here].sleeps = false;
        if !state.rests {
            return;
        }
        state.rests = false;
        // No engine has acted since the group came to rest. Frames that arrive from now on are
        // stamped with this instant or a later one.
        let floor = state.next().map_or(now, |next| next.min(now));
        self.shared.floor.fetch_max(floor.as_ns(), Ordering::SeqCst);
        self.shared.clock.awake();
    }

    /// Records the state of an engine that was changed while it sleeps.
    pub(super) fn refresh(
        &self,
        next: Option<Instant<Virtual>>,
        exchanged: impl Iterator<Item = Exchanged>,
    ) {
        self.shared.lock().engines[self.here].set(next, exchanged);
    }
}

impl Drop for GroupMember {
    fn drop(&mut self) {
        let mut state = self.shared.lock();
        state.engines[self.here].is_gone = true;
        // The others may have waited for this one.
        if !state.rests {
            self.shared.check(&mut state);
        }
    }
}

impl Shared {
    /// Announces the next event if the group has come to rest.
    fn check(&self, state: &mut State) {
        if state.is_at_rest() {
            state.rests = true;
            self.clock.asleep(state.next());
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock()
    }
}

impl State {
    fn present(&self) -> impl Iterator<Item = (usize, &Seat)> {
        let engines = self.engines.iter().enumerate();
        engines.filter(|(_, seat)| !seat.is_gone)
    }

    /// Returns the earliest event.
    fn next(&self) -> Option<Instant<Virtual>> {
        self.present().filter_map(|(_, seat)| seat.next).min()
    }

    fn unrest(&self) -> Vec<Unrest> {
        let mut reasons = Vec::new();
        for (here, seat) in self.present() {
            let here = here as Owner;
            let undecided = seat.undecided.iter();
            reasons.extend(undecided.map(|ends| Unrest::Undecided(here, *ends)));
            if !seat.sleeps && seat.undecided.is_empty() {
                reasons.push(Unrest::Awake(here));
            }
        }
        for (from, sender) in self.present() {
            for (to, receiver) in self.present() {
                if sender.sent[to] != receiver.received[from] {
                    reasons.push(Unrest::Crossing(from as Owner, to as Owner));
                }
            }
        }
        reasons
    }

    fn is_at_rest(&self) -> bool {
        let sleeps = self.present().all(|(_, seat)| seat.sleeps);
        let has_arrived = |(from, sender): (usize, &Seat)| {
            self.present()
                .all(|(to, receiver)| sender.sent[to] == receiver.received[from])
        };
        sleeps && self.present().all(has_arrived)
    }
}

impl Seat {
    fn set(&mut self, next: Option<Instant<Virtual>>, exchanged: impl Iterator<Item = Exchanged>) {
        self.next = next;
        for one in exchanged {
            let there = usize::from(one.there);
            (self.sent[there], self.received[there]) = (one.sent, one.received);
        }
    }
}

impl std::fmt::Debug for EngineGroup {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("EngineGroup").field(&*self.0.lock()).finish()
    }
}

/// Maximum number of connections that an engine states.
const MOST_STATED: usize = 8;

#[cfg(test)]
mod tests {
    use timeloom_time::{ClockMap, Rate, Wall};

    use super::*;

    /// A clock, with the announcements that it has received: the next event, or none when an engine
    /// wakes.
    #[derive(Clone)]
    struct Told(Arc<Mutex<Vec<Option<Instant<Virtual>>>>>);

    impl FollowedClock for Told {
        fn map(&self) -> ClockMap<Wall, Virtual> {
            ClockMap::new(Instant::ZERO, Instant::ZERO, Rate::STOPPED)
        }

        fn asleep(&self, next: Option<Instant<Virtual>>) {
            self.0.lock().push(next);
        }

        fn awake(&self) {
            self.0.lock().push(None);
        }
    }

    fn at(ns: i64) -> Instant<Virtual> {
        Instant::from_ns(ns)
    }

    fn exchanged(there: Owner, sent: u64, received: u64) -> std::array::IntoIter<Exchanged, 1> {
        [Exchanged {
            there,
            sent,
            received,
        }]
        .into_iter()
    }

    #[test]
    fn the_next_event_is_the_earliest_and_a_packet_on_its_way_is_no_rest() {
        let clock = Told(Arc::default());
        let group = EngineGroup::new(2, Box::new(clock.clone()));
        let [one, other] = [0, 1].map(|here| group.member(here));
        let said = || clock.0.lock().clone();
        one.asleep(Some(at(90)), exchanged(1, 0, 0));
        assert!(!group.rests(), "the other is awake");
        assert_eq!(group.unrest(), [Unrest::Awake(1)]);
        let ends = ["10.0.0.1:80", "10.0.0.2:81"].map(|end| end.parse().expect("an address"));
        other.undecided([ends].into_iter());
        assert_eq!(group.unrest(), [Unrest::Undecided(1, ends)]);
        other.asleep(Some(at(40)), exchanged(0, 0, 0));
        assert!(group.rests());
        assert_eq!(group.unrest(), []);
        assert_eq!(said(), [Some(at(40))]);
        // The clock has moved to 40, where the other engine acts and sends a packet.
        other.awake(at(40));
        assert_eq!((said().len(), one.floor()), (2, at(40)));
        other.asleep(None, exchanged(0, 1, 0));
        assert!(!group.rests(), "a packet is on its way");
        assert_eq!(group.unrest(), [Unrest::Crossing(1, 0)]);
        one.awake(at(45));
        assert_eq!(one.floor(), at(40), "nothing is known of what it does");
        one.asleep(Some(at(60)), exchanged(1, 0, 1));
        assert_eq!(said(), [Some(at(40)), None, Some(at(60))]);
        // Beyond the next event nothing is promised, wherever the clock is.
        one.awake(at(70));
        assert_eq!(one.floor(), at(60));
        // An engine that dies is not waited for, nor are packets to it.
        other.awake(at(70));
        one.asleep(Some(at(80)), exchanged(1, 1, 1));
        drop(other);
        assert_eq!(said().last(), Some(&Some(at(80))));
    }
}
