//! Programs of the nodes, and the single machine with which the nodes are compared.

use std::collections::BTreeSet;

use super::{at, ns};
use crate::turns::EventKey;
use timeloom_time::{Instant, Virtual};

/// Event of a node. Events are ordered by position, node, origin and number; no two are alike.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct Event {
    pub(super) key: EventKey,
    /// Node at which the event happens.
    pub(super) node: usize,
    /// Node that caused the event.
    pub(super) origin: usize,
    /// Number of this event among those that its origin caused.
    pub(super) number: u32,
    /// Name of the event within the program.
    pub(super) label: u64,
}

impl Event {
    /// Returns the parts of the event that programs notice.
    pub(super) fn facts(&self) -> (EventKey, usize, u64) {
        (self.key, self.node, self.label)
    }
}

/// Effect of an event.
#[derive(Clone, Copy, Debug)]
pub(super) enum Effect {
    /// Sends a message to node `to`, which arrives after `delay` nanoseconds.
    Send { to: usize, delay: i64, label: u64 },
    /// Schedules an event at the same node, after `delay` nanoseconds.
    Local { delay: i64, rank: u32, label: u64 },
    /// Ends the node's part in the run.
    Leave,
}

/// Event that a program has from the start: node, instant in nanoseconds, rank and label.
pub(super) type First = (usize, i64, u32, u64);

/// Deterministic behaviour of all nodes.
pub(super) trait Program {
    /// Returns the events that nodes have from the start.
    fn first(&self) -> Vec<First>;
    /// Returns the effects of an event.
    fn effects(&self, event: &Event) -> Vec<Effect>;
    /// Returns the number of nodes.
    fn nodes(&self) -> usize;
    /// Returns the least delay of a message, in nanoseconds.
    fn lookahead(&self) -> i64;

    /// Returns the events that `node` has from the start.
    fn first_of(&self, node: usize) -> BTreeSet<Event> {
        let first = (0..).zip(self.first());
        let own = first.filter(|(_, first)| first.0 == node);
        let events = own.map(|(number, (node, ns, rank, label))| Event {
            key: EventKey { at: at(ns), rank },
            node,
            origin: node,
            number,
            label,
        });
        events.collect()
    }
}

/// Program that is written down event by event.
#[derive(Clone, Copy, Debug)]
pub(super) struct Script {
    pub(super) name: &'static str,
    pub(super) lookahead: i64,
    pub(super) first: &'static [First],
    /// Effects of the events, by label.
    pub(super) effects: &'static [(u64, Effect)],
}

impl Program for Script {
    fn first(&self) -> Vec<First> {
        self.first.to_vec()
    }
    fn effects(&self, event: &Event) -> Vec<Effect> {
        let own = self.effects.iter().filter(|(of, _)| *of == event.label);
        own.map(|(_, effect)| *effect).collect()
    }
    fn nodes(&self) -> usize {
        3
    }
    fn lookahead(&self) -> i64 {
        self.lookahead
    }
}

/// Program that follows from a seed. The last byte of a label is the number of generations that
/// the event may still cause.
#[derive(Clone, Copy, Debug)]
pub(super) struct Seeded {
    pub(super) seed: u64,
    pub(super) nodes: usize,
    pub(super) lookahead: i64,
    /// Greatest delay of a local event, and of a message beyond the lookahead.
    pub(super) spread: i64,
    /// Number of generations of events.
    pub(super) generations: u64,
    /// Probability that an event makes its node leave, in 1/1000.
    pub(super) leaves: u64,
}

impl Program for Seeded {
    fn first(&self) -> Vec<First> {
        let mut random = Random(self.seed);
        let mut first = Vec::new();
        for node in 0..self.nodes {
            // One node in four has no event by itself.
            if random.below(4) > 0 {
                let rank = 1 + random.below(3) as u32;
                let ns = random.up_to(self.spread);
                first.push((node, ns, rank, random.label(self.generations)));
            }
        }
        first
    }

    fn effects(&self, event: &Event) -> Vec<Effect> {
        let generations = event.label & 0xff;
        if generations == 0 {
            return Vec::new();
        }
        let mut random = Random(self.seed ^ event.label ^ ((event.node as u64) << 56));
        let mut effects = Vec::new();
        let is_local = event.key.rank > 0;
        if is_local {
            effects.push(Effect::Local {
                delay: random.up_to(self.spread),
                rank: 1 + random.below(3) as u32,
                label: random.label(generations - 1),
            });
        }
        if random.below(10) < 6 {
            let other = 1 + random.below(self.nodes as u64 - 1) as usize;
            effects.push(Effect::Send {
                to: (event.node + other) % self.nodes,
                delay: self.lookahead + random.up_to(self.spread),
                label: random.label(generations.min(3) - 1),
            });
        }
        if random.below(1000) < self.leaves {
            effects.push(Effect::Leave);
        }
        effects
    }

    fn nodes(&self) -> usize {
        self.nodes
    }
    fn lookahead(&self) -> i64 {
        self.lookahead
    }
}

/// Returns all events of a program in the order in which a single machine with one queue performs
/// them.
pub(super) fn single_machine(program: &impl Program) -> Vec<Event> {
    let count = program.nodes();
    let mut queue: BTreeSet<_> = (0..count).flat_map(|node| program.first_of(node)).collect();
    let mut numbers = vec![program.first().len() as u32; count];
    let mut has_left = vec![false; count];
    let mut done = Vec::new();
    while let Some(event) = queue.pop_first() {
        if has_left[event.node] {
            continue;
        }
        done.push(event);
        for effect in program.effects(&event) {
            match caused(&event, effect, &mut numbers[event.node]) {
                Some(next) => _ = queue.insert(next),
                None => has_left[event.node] = true,
            }
        }
    }
    done
}

/// Returns the event that an effect of `event` causes; `None` if the effect is that its node
/// leaves. `number` is the number of the node's next event, and is counted up.
pub(super) fn caused(event: &Event, effect: Effect, number: &mut u32) -> Option<Event> {
    let now = event.key.at;
    let (node, key, label) = match effect {
        Effect::Send { to, delay, label } => (to, EventKey::arrival(now + ns(delay)), label),
        Effect::Local { delay, rank, label } => {
            let at: Instant<Virtual> = now + ns(delay);
            (event.node, EventKey { at, rank }, label)
        }
        Effect::Leave => return None,
    };
    *number += 1;
    Some(Event {
        key,
        node,
        origin: event.node,
        number: *number - 1,
        label,
    })
}

/// SplitMix64.
#[derive(Clone, Debug)]
pub(super) struct Random(pub(super) u64);

impl Random {
    pub(super) fn bits(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut bits = self.0;
        bits = (bits ^ (bits >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        bits = (bits ^ (bits >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        bits ^ (bits >> 31)
    }

    /// Returns a number below `bound`.
    pub(super) fn below(&mut self, bound: u64) -> u64 {
        self.bits() % bound
    }

    /// Returns a number from zero to `most`.
    pub(super) fn up_to(&mut self, most: i64) -> i64 {
        self.below(most as u64 + 1) as i64
    }

    fn label(&mut self, generations: u64) -> u64 {
        (self.bits() & !0xff) | generations
    }
}
