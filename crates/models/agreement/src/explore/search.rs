//! Depth-first search that visits each state once, and reports the path to a violation.

use super::table::{Map, Mixer, Set};
use super::world::{World, Worlds};
use super::{Flaw, HOSTS};
use crate::agreement::OnSilence;
use std::hash::Hasher;

/// Parameters of a search.
#[derive(Clone, Copy, Debug)]
pub(super) struct Scope {
    /// Number of claims of each host.
    pub(super) requests: [usize; HOSTS],
    /// True for hosts that request a change of the dilation whenever they hold the line.
    pub(super) dilates: [bool; HOSTS],
    /// True for hosts whose programs request a stop at a later instant whenever they release the
    /// line.
    pub(super) stops: [bool; HOSTS],
    /// Maximum number of hosts that crash.
    pub(super) crashes: usize,
    /// True if the last host joins late, rather than taking part from the start.
    pub(super) joins: bool,
    pub(super) network: Network,
    /// True if clocks and processes take time to obey an order.
    pub(super) slow: bool,
    pub(super) on_silence: OnSilence,
    /// Maximum number of events on a path.
    pub(super) depth: usize,
    pub(super) flaw: Option<Flaw>,
    /// True if states that behave alike are visited once ([`super::canonical`]). Not possible with
    /// a joiner, which uses more of the others' records.
    pub(super) merges: bool,
}

/// Model of the delivery of records.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Network {
    /// Records arrive in the order of sending, with gaps. Only this many of the newest records from
    /// one host to another may still arrive; older ones are lost.
    InOrder(usize),
    /// All records that were ever sent may arrive at any time, any number of times
    /// ([`super::any_order`]).
    AnyOrder,
}

impl Network {
    /// Adds a record that was sent to the queue of records under way.
    pub(super) fn carry(self, queue: &mut Vec<u32>, record: u32) {
        match self {
            Self::InOrder(most) => {
                queue.push(record);
                queue.drain(..queue.len().saturating_sub(most));
            }
            Self::AnyOrder => {
                if let Err(at) = queue.binary_search(&record) {
                    queue.insert(at, record);
                }
            }
        }
    }
}

/// Number of states that the search found.
pub(super) struct Found {
    pub(super) worlds: Worlds,
    visited: VisitedStates,
}

/// Tries every order of events. Returns the states, or the violation with the events that led to
/// it.
pub(super) fn search(scope: Scope) -> Result<Found, String> {
    assert!(!(scope.merges && scope.joins), "joiners are not merged");
    let remembers = scope.network != Network::AnyOrder;
    assert!(!scope.joins || remembers, "joiners remember");
    let mut worlds = Worlds::new(scope);
    let start = worlds.start()?;
    let mut visited = VisitedStates::default();
    visited.insert(start);
    let mut path = vec![Visit::new(start)];
    while let Some(visit) = path.last_mut() {
        let (world, host) = (visit.world, usize::from(visit.host));
        if host == HOSTS {
            path.pop();
            continue;
        }
        let Some(outcome) = worlds.outcome(&world, host, usize::from(visit.place)) else {
            (visit.host, visit.place) = (visit.host + 1, 0);
            continue;
        };
        visit.place += 1;
        if !worlds.may(&world, &outcome) {
            continue;
        }
        let next = match worlds.happen(&world, host, &outcome) {
            Ok(next) => next,
            Err(wrong) => return Err(story(&wrong, &path, &mut worlds)),
        };
        if path.len() >= scope.depth || !visited.insert(next) {
            continue;
        }
        let count = visited.len();
        if count.is_multiple_of(SAID_EVERY) {
            eprintln!(
                "{count} states, {} deep, {:?}",
                path.len(),
                worlds.stations.sizes()
            );
        }
        if worlds.is_at_rest(&next)
            && let Err(wrong) = worlds.rests(&next)
        {
            return Err(story(&wrong, &path, &mut worlds));
        }
        path.push(Visit::new(next));
    }
    Ok(Found { worlds, visited })
}

/// State on the current path, with the position of the next event to try: the host, and the index
/// within the list of that host's events.
struct Visit {
    world: World,
    host: u8,
    place: u16,
}

impl Visit {
    fn new(world: World) -> Self {
        let (host, place) = (0, 0);
        Self { world, host, place }
    }
}

fn story(wrong: &str, path: &[Visit], worlds: &mut Worlds) -> String {
    let mut story = format!("{wrong}, after\n");
    for Visit { world, host, place } in path {
        let host = usize::from(*host);
        let last = usize::from(*place) - 1;
        if let Some(outcome) = worlds.outcome(world, host, last) {
            story += &worlds.stations.story(host, &outcome);
        }
    }
    story
}

impl Found {
    pub(super) fn len(&self) -> usize {
        self.visited.len()
    }

    /// Returns all states of another search, each replaced by its representative in the worlds of
    /// this search. If `bare` is true, the hosts' knowledge and the records under way are left out.
    pub(super) fn adopt(&mut self, other: &Self, bare: bool) -> Set<u128> {
        let mut known = Map::default();
        let worlds = other.all();
        let worlds = worlds.map(|number| {
            let world = World::of(number);
            let world = self.worlds.adopt(&other.worlds, world, bare, &mut known);
            world.number()
        });
        worlds.collect()
    }

    /// Iterates over all states that were visited.
    pub(super) fn all(&self) -> impl Iterator<Item = u128> {
        self.visited.parts.iter().flatten().copied()
    }
}

/// Set of states by number. It is divided into parts, so that growing copies one part at a time.
struct VisitedStates {
    parts: Vec<Set<u128>>,
    count: usize,
}

impl Default for VisitedStates {
    fn default() -> Self {
        let parts = (0..PARTS).map(|_| Set::default()).collect();
        Self { parts, count: 0 }
    }
}

impl VisitedStates {
    fn insert(&mut self, world: World) -> bool {
        let number = world.number();
        let is_new = self.parts[Self::part(number)].insert(number);
        self.count += usize::from(is_new);
        is_new
    }

    fn part(number: u128) -> usize {
        let mut mixer = Mixer(0x1319_8a2e_0370_7344);
        mixer.write_u128(number);
        (mixer.finish() >> 32) as usize % PARTS
    }

    fn len(&self) -> usize {
        self.count
    }
}

const PARTS: usize = 64;

/// Number of states between two lines of progress. An interrupted search then shows how far it
/// came.
const SAID_EVERY: usize = 1_000_000;
