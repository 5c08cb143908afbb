//! Simulation of many nodes with streams and processors of different speeds.

use std::collections::BTreeMap;

use super::node::{Frame, Node};
use super::program::{Event, Program, Random, Seeded, single_machine};

/// Occurrence in the simulated network, in real time.
enum Occurrence {
    Act(usize),
    Deliver {
        from: usize,
        to: usize,
        frame: Frame,
    },
}

struct Network {
    nodes: Vec<Node>,
    /// Occurrences in the future, by real time and by number.
    agenda: BTreeMap<(u64, u64), Occurrence>,
    planned: u64,
    /// Greatest delay of a frame, by stream.
    slowness: Vec<u64>,
    /// Real time at which the last frame of each stream arrives.
    last: Vec<u64>,
    /// Real time that a node needs for one step.
    effort: Vec<u64>,
    /// True for nodes whose next step is planned.
    acts: Vec<bool>,
    random: Random,
}

impl Network {
    fn new(program: &Seeded) -> Self {
        let count = program.nodes;
        let mut random = Random(!program.seed);
        let mut some = |most| 1 + random.below(most);
        Self {
            nodes: (0..count).map(|me| Node::new(me, program, None)).collect(),
            agenda: BTreeMap::new(),
            planned: 0,
            slowness: (0..count * count)
                .map(|stream| some(if stream % 5 == 0 { 100_000 } else { 100 }))
                .collect(),
            last: vec![0; count * count],
            effort: (0..count)
                .map(|node| some(if node % 3 == 0 { 5_000 } else { 10 }))
                .collect(),
            acts: vec![false; count],
            random,
        }
    }

    fn plan(&mut self, at: u64, occurrence: Occurrence) {
        self.agenda.insert((at, self.planned), occurrence);
        self.planned += 1;
    }

    /// Plans the next step of a node, if the node has the turn.
    fn wake(&mut self, now: u64, node: usize) {
        if !self.acts[node] && self.nodes[node].turns.mine().is_some() {
            self.acts[node] = true;
            self.plan(now + self.effort[node], Occurrence::Act(node));
        }
    }

    fn send(&mut self, now: u64, from: usize, to: usize, frame: Frame) {
        let stream = from * self.nodes.len() + to;
        let arrival = now + self.random.below(self.slowness[stream]);
        self.last[stream] = self.last[stream].max(arrival);
        let arrival = self.last[stream];
        self.plan(arrival, Occurrence::Deliver { from, to, frame });
    }

    /// Runs until no occurrence is left. Returns the events in the order of real time.
    fn run(&mut self, program: &Seeded) -> Result<Vec<Event>, String> {
        let mut done = Vec::new();
        (0..self.nodes.len()).for_each(|node| self.wake(0, node));
        while let Some(((now, _), occurrence)) = self.agenda.pop_first() {
            match occurrence {
                Occurrence::Act(node) => {
                    self.acts[node] = false;
                    let acting = self.nodes.iter().filter(|node| node.turns.mine().is_some());
                    if acting.count() != 1 {
                        return Err(format!("several nodes have the turn after {done:?}"));
                    }
                    let step = self.nodes[node].act(program, None)?;
                    let step = step.ok_or("a node lost its turn")?;
                    done.extend(step.event);
                    for (to, frame) in step.frames {
                        self.send(now, node, to, frame);
                    }
                    self.wake(now, node);
                }
                Occurrence::Deliver { from, to, frame } => {
                    self.nodes[to].receive(from, frame, None)?;
                    self.wake(now, to);
                }
            }
        }
        Ok(done)
    }
}

/// Runs a program in the network and on the single machine. Returns the number of events, and that
/// of turns.
fn compare(program: &Seeded) -> Result<(usize, u64), String> {
    let mut network = Network::new(program);
    let done = network.run(program)?;
    let expected = single_machine(program);
    if done.len() != expected.len() {
        return Err(format!("{} of {} events", done.len(), expected.len()));
    }
    if !network.nodes.iter().all(Node::is_idle) {
        return Err("not all nodes know that there are no events".to_owned());
    }
    for node in 0..program.nodes {
        let of = |events: &[Event]| -> Vec<Event> {
            let own = events.iter().filter(|event| event.node == node);
            own.copied().collect()
        };
        if of(&done) != of(&expected) {
            return Err(format!("node {node} differs"));
        }
    }
    if program.lookahead() == 0 && done != expected {
        return Err("the order of all events differs".to_owned());
    }
    Ok((done.len(), network.nodes[0].turns.turn))
}

#[test]
fn sixty_four_nodes_are_one_machine() {
    for seed in 0..6 {
        let program = Seeded {
            seed,
            nodes: 64,
            lookahead: [0, 40][(seed % 2) as usize],
            spread: [20, 100, 1000][(seed % 3) as usize],
            generations: 40,
            leaves: 4,
        };
        match compare(&program) {
            Ok((events, turns)) => {
                println!("seed {seed}: {events} events in {turns} turns");
                assert!(events > 1000, "seed {seed} has only {events} events");
            }
            Err(wrong) => panic!("seed {seed}: {wrong}"),
        }
    }
}
