//! The search: depth first, each state once, and the way to what is wrong.

use super::table::{Map, Mixer, Set};
use super::world::{World, Worlds};
use super::{Flaw, HOSTS};
use crate::agreement::OnSilence;
use std::hash::Hasher;

/// What is tried.
#[derive(Clone, Copy, Debug)]
pub(super) struct Scope {
    /// How often each host asks for the line.
    pub(super) requests: [usize; HOSTS],
    /// How many hosts crash.
    pub(super) crashes: usize,
    /// Whether the last host comes later.
    pub(super) joins: bool,
    pub(super) network: Network,
    /// Whether clocks and processes take their time to obey.
    pub(super) slow: bool,
    pub(super) on_silence: OnSilence,
    /// How many events there are in a row at most.
    pub(super) depth: usize,
    pub(super) flaw: Option<Flaw>,
    /// Whether states that go on alike are visited once ([`super::canonical`]). Not where
    /// somebody comes late: what a joiner asks of others' records is more.
    pub(super) merges: bool,
}

/// What may become of what is said.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Network {
    /// The newest records of one host to another may come, as many as this, as long as no newer
    /// one has come; older ones are lost.
    InOrder(usize),
    /// All that was ever said may come at any time, any number of times ([`super::any_order`]).
    AnyOrder,
}

impl Network {
    /// This is said, and under way from now on.
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

/// All states that were found.
pub(super) struct Found {
    pub(super) worlds: Worlds,
    visited: VisitedStates,
}

/// Tries every order. Returns the states that there are, or what is wrong and how it came to
/// that.
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

/// A state, and how many of the things that may happen next have been tried: all of the hosts
/// before this one, and so many of this one.
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

    /// All states of another search, each as the one that stands for it in the worlds of this
    /// one; without who knows what and what is under way, if `bare`.
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

    /// All states.
    pub(super) fn all(&self) -> impl Iterator<Item = u128> {
        self.visited.parts.iter().flatten().copied()
    }
}

/// States by their numbers, in parts, so that no more than one part is ever copied to grow.
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

/// A search that is broken off has said how far it came.
const SAID_EVERY: usize = 1_000_000;
