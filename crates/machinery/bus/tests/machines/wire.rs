//! Simulated wire that joins pins by OR, and that can have faults.

use std::collections::VecDeque;
use std::io;
use std::sync::{Arc, Condvar, Mutex};
use std::time::Duration as StdDuration;

use timeloom_bus::{Edge, Levels, Pins};
use timeloom_sys::wall_now;
use timeloom_time::{Instant, Wall};

/// Wire that connects the pins of some machines.
#[derive(Default)]
pub(crate) struct Copper {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    ends: Vec<End>,
    high: bool,
    stuck: bool,
}

#[derive(Default)]
struct End {
    drives: bool,
    /// True if the output cannot be set.
    broken: bool,
    /// True if the inputs are disconnected from the line.
    cut: bool,
    /// Number of falling edges that one input will not deliver.
    deaf: u32,
    reads: bool,
    edges: VecDeque<Edge>,
    numbers: [u32; 2],
}

/// Pins of one machine.
pub(crate) struct Soldered(Arc<Copper>, usize);

impl Copper {
    pub(crate) fn pins(self: &Arc<Self>) -> Arc<Soldered> {
        let mut state = self.state.lock().unwrap();
        let reads = state.high;
        state.ends.push(End {
            reads,
            ..End::default()
        });
        Arc::new(Soldered(Arc::clone(self), state.ends.len() - 1))
    }

    fn change(&self, change: impl FnOnce(&mut State)) {
        let mut state = self.state.lock().unwrap();
        change(&mut state);
        let high = state.stuck || state.ends.iter().any(|end| end.drives);
        if high != state.high {
            state.high = high;
            // All inputs get the same timestamp, because it is one wire.
            let at = wall_now();
            for end in state.ends.iter_mut().filter(|end| !end.cut) {
                end.reads = high;
                let number = &mut end.numbers[usize::from(high)];
                if !high && end.deaf > 0 {
                    end.deaf -= 1;
                    continue;
                }
                *number += 1;
                end.edges.push_back(Edge {
                    rising: high,
                    at,
                    number: *number,
                });
            }
        }
        self.changed.notify_all();
    }

    /// Adds pulses that are over but not delivered yet. Each has the times at which the line rose
    /// and fell.
    pub(crate) fn pulses(&self, pulses: &[(Instant<Wall>, Instant<Wall>)]) {
        let mut state = self.state.lock().unwrap();
        for end in &mut state.ends {
            for (rising, at) in pulses
                .iter()
                .flat_map(|&(rose, fell)| [(true, rose), (false, fell)])
            {
                let number = &mut end.numbers[usize::from(rising)];
                *number += 1;
                end.edges.push_back(Edge {
                    rising,
                    at,
                    number: *number,
                });
            }
        }
        self.changed.notify_all();
    }

    pub(crate) fn sticks(&self, stuck: bool) {
        self.change(|state| state.stuck = stuck);
    }

    pub(crate) fn breaks(&self, end: usize, broken: bool) {
        self.change(|state| state.ends[end].broken = broken);
    }

    pub(crate) fn cut(&self, end: usize, cut: bool) {
        self.change(|state| state.ends[end].cut = cut);
    }

    pub(crate) fn misses_a_fall(&self, end: usize) {
        self.change(|state| state.ends[end].deaf = 1);
    }
}

impl Pins for Soldered {
    fn drive(&self, high: bool) -> io::Result<()> {
        let mut obeys = true;
        self.0.change(|state| {
            let end = &mut state.ends[self.1];
            obeys = !end.broken;
            if obeys {
                end.drives = high;
            }
        });
        obeys
            .then_some(())
            .ok_or_else(|| io::Error::other("the output is broken"))
    }

    fn levels(&self) -> io::Result<Levels> {
        let reads = self.0.state.lock().unwrap().ends[self.1].reads;
        Ok(Levels {
            rising: reads,
            falling: reads,
        })
    }

    fn next_edge(&self, within: StdDuration) -> io::Result<Option<Edge>> {
        let state = self.0.state.lock().unwrap();
        let (mut state, _) = self
            .0
            .changed
            .wait_timeout_while(state, within, |state| state.ends[self.1].edges.is_empty())
            .unwrap();
        Ok(state.ends[self.1].edges.pop_front())
    }
}
