//! Messages of other agents, until they take effect in a turn of this agent.

use std::collections::BTreeMap;

use timeloom_time::{Instant, Virtual};

/// Message of another agent that takes effect in a turn of this one.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Arrival {
    /// A frame of a link, or a packet between engines.
    Frame(Vec<u8>),
    /// A program that is ready at this instant.
    Ready(String, Instant<Virtual>),
}

/// Arrivals by the turns in which they were sent. Streams of different agents have no common order,
/// but turns have.
pub(super) struct Arrivals {
    /// Arrivals of each agent's turn that has not ended.
    open: Vec<Vec<Arrival>>,
    /// Number of bytes of each agent's arrivals that have not taken effect.
    bytes: Vec<usize>,
    /// Arrivals of turns that have ended, each with the agent that sent them.
    ended: BTreeMap<(u64, usize), Vec<Arrival>>,
}

impl Arrivals {
    /// Returns the empty value for `count` agents.
    pub(super) fn of(count: usize) -> Self {
        Self {
            open: (0..count).map(|_| Vec::new()).collect(),
            bytes: vec![0; count],
            ended: BTreeMap::new(),
        }
    }

    /// Adds an arrival from an agent.
    ///
    /// # Errors
    /// Returns a text if the agent has sent more than is kept.
    pub(super) fn add(&mut self, from: usize, arrival: Arrival) -> Result<(), String> {
        let length = match &arrival {
            Arrival::Frame(bytes) => bytes.len(),
            Arrival::Ready(program, _) => program.len(),
        };
        let bytes = &mut self.bytes[from];
        *bytes = bytes.saturating_add(length + ENTRY_BYTES);
        if *bytes > MOST_BYTES {
            return Err(format!(
                "it sent more than {} MiB before this agent's turn; does a program of it send \
                 without pause?",
                MOST_BYTES >> 20
            ));
        }
        self.open[from].push(arrival);
        Ok(())
    }

    /// Assigns the agent's arrivals since its last turn to the turn that has ended.
    pub(super) fn end(&mut self, from: usize, turn: u64) {
        let arrivals = std::mem::take(&mut self.open[from]);
        if !arrivals.is_empty() {
            self.ended.insert((turn, from), arrivals);
        }
    }

    /// Takes the arrivals of all turns that have ended, in the order of the turns, each with its
    /// sender.
    pub(super) fn take(&mut self) -> Vec<(usize, Arrival)> {
        let mut taken = Vec::new();
        for ((_, from), arrivals) in std::mem::take(&mut self.ended) {
            taken.extend(arrivals.into_iter().map(|arrival| (from, arrival)));
        }
        for (from, bytes) in self.bytes.iter_mut().enumerate() {
            // What is left belongs to turns that have not ended.
            let lengths = self.open[from].iter().map(|arrival| match arrival {
                Arrival::Frame(bytes) => bytes.len() + ENTRY_BYTES,
                Arrival::Ready(program, _) => program.len() + ENTRY_BYTES,
            });
            *bytes = lengths.sum();
        }
        taken
    }
}

/// Number of bytes that count for each arrival beside its content.
const ENTRY_BYTES: usize = 128;
/// Maximum number of bytes of one agent's arrivals that are kept.
const MOST_BYTES: usize = 256 << 20;

#[cfg(test)]
mod tests {
    use super::*;

    fn frame(byte: u8) -> Arrival {
        Arrival::Frame(vec![byte])
    }

    #[test]
    fn arrivals_are_in_the_order_of_turns_and_not_of_streams() {
        let mut arrivals = Arrivals::of(3);
        arrivals.add(2, frame(1)).expect("room");
        arrivals.end(2, 7);
        arrivals.add(1, frame(2)).expect("room");
        arrivals.add(1, frame(3)).expect("room");
        arrivals.end(1, 6);
        arrivals.add(2, frame(4)).expect("room");
        let taken = arrivals.take();
        assert_eq!(taken, [(1, frame(2)), (1, frame(3)), (2, frame(1))]);
        assert_eq!(arrivals.take(), []);
        arrivals.end(2, 8);
        assert_eq!(arrivals.take(), [(2, frame(4))]);
    }

    #[test]
    fn an_agent_cannot_fill_the_memory() {
        let mut arrivals = Arrivals::of(2);
        let one = || Arrival::Frame(Vec::new());
        let taken = (0..10_000_000).take_while(|_| arrivals.add(1, one()).is_ok());
        assert_eq!(taken.count(), MOST_BYTES / ENTRY_BYTES);
        arrivals.add(0, one()).expect("another agent has room");
        arrivals.end(1, 3);
        arrivals.take();
        arrivals.add(1, one()).expect("there is room again");
    }
}
