//! The search: depth first, each state once, with the path to a violation.

use super::table::{Map, Mixer, Set};
use super::world::{World, Worlds};
use super::{Flaw, HOSTS};
use crate::agreement::OnSilence;
use std::hash::Hasher;

/// Parameters of a search.
#[derive(Clone, Copy, Debug)]
pub(super) struct Scope {
    /// Number of claims, by host.
    pub(super) requests: [usize; HOSTS],
    /// Number of hosts that crash.
    pub(super) crashes: usize,
    /// The last host joins later.
    pub(super) joins: bool,
    pub(super) network: Network,
    /// Clocks and processes take time to obey.
    pub(super) slow: bool,
    pub(super) on_silence: OnSilence,
    /// Maximum number of events in a row.
    pub(super) depth: usize,
    pub(super) flaw: Option<Flaw>,
    /// Visits states that behave alike once ([`super::canonical`]). Not for scopes with a joiner,
    /// which uses more of the others' records.
    pub(super) merges: bool,
}

/// Delivery of records.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Network {
    /// The newest records of one host to another may arrive, at most this many, until a newer one
    /// has arrived; older ones are lost.
    InOrder(usize),
    /// All records ever sent may arrive at any time, any number of times ([`super::any_order`]).
    AnyOrder,
}

impl Network {
    /// Adds a sent record to the queue.
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

/// States found.
pub(super) struct Found {
    pub(super) worlds: Worlds,
    visited: VisitedStates,
}

/// Tries every order. Returns the states, or the violation and the events that led to it.
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

/// State, with the number of events tried: all events of the hosts before this one, and so many of
/// this one.
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

    /// Returns all states of another search, each as its representative in the worlds of this one;
    /// without the hosts' knowledge and the records under way, if `bare`.
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

    /// Returns all states.
    pub(super) fn all(&self) -> impl Iterator<Item = u128> {
        self.visited.parts.iter().flatten().copied()
    }
}

/// States by their numbers, in parts, so that growth copies no more than one part.
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

/// Interval of the progress output, in states, so that an interrupted search has shown its
/// progress.
const SAID_EVERY: usize = 1_000_000;
