//! The search: depth first, each state once, and the way to what is wrong.

use std::collections::HashSet;
use std::hash::{BuildHasherDefault, Hash, Hasher};

use super::Flaw;
use super::world::{Event, World};
use crate::agreement::OnSilence;

/// What is tried.
#[derive(Clone, Copy, Debug)]
pub(super) struct Scope {
    pub(super) hosts: usize,
    /// How often each host asks for the line.
    pub(super) requests: [usize; 3],
    /// How many hosts crash.
    pub(super) crashes: usize,
    /// Whether the last host comes later.
    pub(super) joins: bool,
    /// How many records of one host to another are under way at most; older ones are
    /// lost.
    pub(super) under_way: usize,
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

/// The fingerprints of states.
pub(super) type Prints = HashSet<u128, BuildHasherDefault<Already>>;

/// Tries every order. Returns the states that there are, each as the one that stands for all
/// that go on like it; or what is wrong and how it came to that.
pub(super) fn search(scope: Scope) -> Result<Prints, String> {
    assert!(!(scope.merges && scope.joins), "joiners are not merged");
    let mut start = World::new(&scope);
    let mut seen = Prints::default();
    // Where states are not merged: what would stand for them.
    let mut stands_for = Prints::default();
    match scope.merges {
        true => start.make_canonical(),
        false => _ = stands_for.insert(canonical_print(&start)),
    }
    seen.insert(fingerprint(&start));
    // A state, what may happen next, and how many of that have been tried.
    let mut path = vec![visit(start, &scope, &[])?];
    while let Some((world, events, tried)) = path.last_mut() {
        let Some(event) = events.get(*tried).copied() else {
            path.pop();
            continue;
        };
        *tried += 1;
        let mut next = world.clone();
        if let Err(wrong) = next.happen(event) {
            return Err(story(&wrong, &path));
        }
        if scope.merges {
            next.make_canonical();
        }
        if seen.len() > MOST {
            return Err(story(&format!("more than {MOST} states"), &path));
        }
        if path.len() < scope.depth && seen.insert(fingerprint(&next)) {
            if seen.len().is_multiple_of(SAID_EVERY) {
                eprintln!("{} states, {} deep", seen.len(), path.len());
            }
            if !scope.merges {
                stands_for.insert(canonical_print(&next));
            }
            let visited = visit(next, &scope, &path)?;
            path.push(visited);
        }
    }
    Ok(match scope.merges {
        true => seen,
        false => stands_for,
    })
}

fn canonical_print(world: &World) -> u128 {
    let mut world = world.clone();
    world.make_canonical();
    fingerprint(&world)
}

type Visit = (World, Vec<Event>, usize);

fn visit(world: World, scope: &Scope, path: &[Visit]) -> Result<Visit, String> {
    let events = world.events();
    let from_outside =
        |event: &Event| matches!(event, Event::Claim(_) | Event::Crash(_) | Event::Release(_));
    if events.iter().all(from_outside) {
        world.rests(scope).map_err(|wrong| story(&wrong, path))?;
    }
    Ok((world, events, 0))
}

fn story(wrong: &str, path: &[Visit]) -> String {
    let mut story = format!("{wrong}, after\n");
    for (_, events, tried) in path {
        story += &format!("  {:?}\n", events[*tried - 1]);
    }
    story
}

/// 128 bits: two states that differ do not share them by accident.
fn fingerprint(world: &World) -> u128 {
    let mut hasher = Mixer(0x243f_6a88_85a3_08d3, 0x1319_8a2e_0370_7344);
    world.hash(&mut hasher);
    u128::from(hasher.0) << 64 | u128::from(hasher.1)
}

/// Two multiplicative hashes with different constants, of whole words.
struct Mixer(u64, u64);

impl Mixer {
    fn mix(&mut self, word: u64) {
        let fold = |state: u64, odd: u64| {
            let product = u128::from(state ^ word) * u128::from(odd);
            (product as u64) ^ ((product >> 64) as u64).wrapping_add(state.rotate_left(23))
        };
        self.0 = fold(self.0, 0x9e37_79b9_7f4a_7c15);
        self.1 = fold(self.1, 0xd6e8_feb8_6659_fd93);
    }
}

impl Hasher for Mixer {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        for chunk in bytes.chunks(8) {
            let mut word = [0; 8];
            word[..chunk.len()].copy_from_slice(chunk);
            self.mix(u64::from_le_bytes(word));
        }
    }
}

/// A fingerprint is its own hash.
#[derive(Default)]
pub(super) struct Already(u64);

impl Hasher for Already {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, _: &[u8]) {
        unreachable!("only fingerprints are kept")
    }

    fn write_u128(&mut self, print: u128) {
        self.0 = print as u64;
    }
}

/// A search that is broken off has said how far it came.
const SAID_EVERY: usize = 1_000_000;

/// More states than this are a mistake of the one who chose the scope.
const MOST: usize = 400_000_000;
