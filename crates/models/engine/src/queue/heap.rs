//! A 4-ary heap: a part of the wheel, and the reference for the wheel's order in tests.

use timeloom_time::{Instant, Virtual};

use super::EventQueue;
use crate::Event;

/// A 4-ary min-heap in one vector. The cost of an operation is logarithmic for every distribution
/// of instants, so other queues use this heap for events that they cannot place.
#[derive(Debug, Default)]
pub struct Heap4 {
    items: Vec<Event>,
}

impl Heap4 {
    /// Returns the first event without removing it.
    #[inline]
    pub fn peek(&self) -> Option<&Event> {
        self.items.first()
    }

    fn sift_up(&mut self, mut at: usize) {
        let event = self.items[at];
        while at > 0 {
            let parent = (at - 1) / ARITY;
            if self.items[parent] <= event {
                break;
            }
            self.items[at] = self.items[parent];
            at = parent;
        }
        self.items[at] = event;
    }

    fn sift_down(&mut self) {
        let event = self.items[0];
        let mut at = 0;
        loop {
            let first = at * ARITY + 1;
            let Some(children) = self
                .items
                .get(first..self.items.len().min(first + ARITY))
                .filter(|children| !children.is_empty())
            else {
                break;
            };
            let mut least = 0;
            for index in 1..children.len() {
                if children[index] < children[least] {
                    least = index;
                }
            }
            if event <= children[least] {
                break;
            }
            self.items[at] = children[least];
            at = first + least;
        }
        self.items[at] = event;
    }
}

/// Children per node. Four entries of 24 bytes fit into two cache lines.
const ARITY: usize = 4;

impl EventQueue for Heap4 {
    #[inline]
    fn push(&mut self, event: Event) {
        self.items.push(event);
        self.sift_up(self.items.len() - 1);
    }

    #[inline]
    fn pop_due(&mut self, limit: Instant<Virtual>) -> Option<Event> {
        let first = *self.items.first().filter(|event| event.at <= limit)?;
        let last = self.items.pop()?;
        if !self.items.is_empty() {
            self.items[0] = last;
            self.sift_down();
        }
        Some(first)
    }

    #[inline]
    fn first_at(&self) -> Option<Instant<Virtual>> {
        self.peek().map(|event| event.at)
    }

    fn len(&self) -> usize {
        self.items.len()
    }
}
