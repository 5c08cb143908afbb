//! Search of every order in which a few nodes act and receive.

use std::collections::{HashSet, VecDeque};

use super::node::{Flaw, Frame, Node};
use super::program::{Event, Program, Seeded, single_machine};
use super::scripts::{ANSWER, ANSWER_AHEAD, EDGE, LEAVE, SCRIPTS, TIES};

/// Nodes, and the frames under way in the stream from each node to each.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct World {
    nodes: Vec<Node>,
    streams: Vec<VecDeque<Frame>>,
}

/// Step of a node, or delivery of the first frame of a stream.
#[derive(Clone, Copy, Debug)]
enum Move {
    Act(usize),
    Deliver { from: usize, to: usize },
}

struct Search<'a, P> {
    program: &'a P,
    flaw: Option<Flaw>,
    /// Events in the order of the single machine.
    expected: Vec<Event>,
    /// The same, by node.
    by_node: Vec<Vec<Event>>,
}

/// Searches all states of a program. Returns their number, or the violation with the moves that
/// led to it.
fn search(program: &impl Program, flaw: Option<Flaw>) -> Result<usize, String> {
    let expected = single_machine(program);
    let of = |node| expected.iter().filter(move |event| event.node == node);
    let by_node = (0..program.nodes()).map(|node| of(node).copied().collect());
    let by_node = by_node.collect();
    let search = Search {
        program,
        flaw,
        expected,
        by_node,
    };
    search.run()
}

impl<P: Program> Search<'_, P> {
    fn run(&self) -> Result<usize, String> {
        let count = self.program.nodes();
        let nodes = (0..count).map(|me| Node::new(me, self.program, self.flaw));
        let start = World {
            nodes: nodes.collect(),
            streams: vec![VecDeque::new(); count * count],
        };
        let mut visited = HashSet::from([start.clone()]);
        let mut path = vec![(self.moves(&start), start)];
        let mut trail: Vec<Move> = Vec::new();
        while let Some((moves, world)) = path.last_mut() {
            let Some(step) = moves.pop() else {
                path.pop();
                trail.pop();
                continue;
            };
            trail.push(step);
            let story = |wrong| format!("{wrong}, after {trail:?}");
            let next = self.after(world, step).map_err(story)?;
            if visited.contains(&next) {
                trail.pop();
                continue;
            }
            let moves = self.moves(&next);
            self.check(&next, moves.is_empty()).map_err(story)?;
            visited.insert(next.clone());
            path.push((moves, next));
        }
        Ok(visited.len())
    }

    /// Returns the moves that are possible. A node that only believes to have the turn may act too.
    fn moves(&self, world: &World) -> Vec<Move> {
        let count = world.nodes.len();
        let act = (0..count).filter(|node| {
            let acts = world.nodes[*node].clone().act(self.program, self.flaw);
            !matches!(acts, Ok(None))
        });
        let pairs = (0..count).flat_map(|from| (0..count).map(move |to| (from, to)));
        let full = pairs.filter(|(from, to)| !world.streams[from * count + to].is_empty());
        let deliver = full.map(|(from, to)| Move::Deliver { from, to });
        act.map(Move::Act).chain(deliver).collect()
    }

    fn after(&self, world: &World, step: Move) -> Result<World, String> {
        let mut world = world.clone();
        let count = world.nodes.len();
        match step {
            Move::Act(node) => {
                let done: usize = world.nodes.iter().map(|node| node.done).sum();
                let acted = world.nodes[node].act(self.program, self.flaw)?;
                let acted = acted.ok_or("a node had no turn")?;
                if let Some(event) = acted.event {
                    self.compare(&event, world.nodes[node].done - 1, done)?;
                }
                for (to, frame) in acted.frames {
                    world.streams[node * count + to].push_back(frame);
                }
            }
            Move::Deliver { from, to } => {
                let frame = world.streams[from * count + to].pop_front();
                let frame = frame.ok_or("a stream was empty")?;
                world.nodes[to].receive(from, frame, self.flaw)?;
            }
        }
        Ok(world)
    }

    /// Checks an event, the `own`-th of its node and the `all`-th of all nodes.
    fn compare(&self, event: &Event, own: usize, all: usize) -> Result<(), String> {
        let is = |expected: Option<&Event>| expected.map(Event::facts) == Some(event.facts());
        if !is(self.by_node[event.node].get(own)) {
            return Err(format!("{event:?} is not the node's event {own}"));
        }
        if self.program.lookahead() == 0 && !is(self.expected.get(all)) {
            return Err(format!("{event:?} is not event {all} of all"));
        }
        Ok(())
    }

    fn check(&self, world: &World, is_last: bool) -> Result<(), String> {
        let nodes = world.nodes.iter();
        let acting = nodes.clone().filter(|node| node.turns.mine().is_some());
        if acting.count() > 1 {
            return Err("two nodes have the turn".to_owned());
        }
        let ends = nodes.clone().map(|node| node.turns.turn).max();
        if ends > Some(MOST_TURNS) {
            return Err("the turns have no end".to_owned());
        }
        if is_last {
            let done: usize = nodes.clone().map(|node| node.done).sum();
            if done != self.expected.len() {
                return Err(format!("all wait after {done} events"));
            }
            if !nodes.clone().all(Node::is_idle) {
                return Err("all wait, but not all know that there are no events".to_owned());
            }
            let views = || {
                nodes
                    .clone()
                    .map(|node| (&node.turns.nodes, node.turns.turn))
            };
            if !views().zip(views().skip(1)).all(|(one, next)| one == next) {
                return Err("the nodes differ in the end".to_owned());
            }
        }
        Ok(())
    }
}

/// Number of turns that no correct run needs.
const MOST_TURNS: u64 = 100;

/// Program of few events, most at the instant of another.
fn small(seed: u64) -> Seeded {
    Seeded {
        seed,
        nodes: 3 + usize::from(seed % 7 == 6),
        lookahead: (seed % 4) as i64,
        spread: 3,
        generations: 3,
        leaves: 50,
    }
}

#[test]
fn three_nodes_are_one_machine_in_every_order() {
    for script in SCRIPTS {
        match search(&script, None) {
            Ok(states) => println!("{}: {states} states", script.name),
            Err(wrong) => panic!("{}: {wrong}", script.name),
        }
    }
}

#[test]
fn three_nodes_with_random_programs_are_one_machine_in_every_order() {
    let mut states = 0;
    for seed in 0..SEEDS {
        match search(&small(seed), None) {
            Ok(more) => states += more,
            Err(wrong) => panic!("seed {seed}: {wrong}"),
        }
    }
    println!("{SEEDS} programs: {states} states");
}

const SEEDS: u64 = 120;

#[test]
fn each_flaw_is_found() {
    let flaws = [
        (Flaw::EndsOnArrival, ANSWER, "not its own"),
        (Flaw::Unannounced, ANSWER, ""),
        (Flaw::MessagesAfterEnd, ANSWER, ""),
        (Flaw::NoRank, TIES, "is not"),
        (Flaw::TooMuchLookahead, EDGE, ""),
        (Flaw::PassesOwnMessages, ANSWER, "is not"),
        (Flaw::PassesOwnMessages, ANSWER_AHEAD, "is not"),
        (Flaw::OrderOfReception, TIES, "is not"),
        (Flaw::OwnEventsOnly, ANSWER, ""),
        (Flaw::LeavesSilently, LEAVE, "all wait"),
    ];
    for (flaw, script, expected) in flaws {
        let found = search(&script, Some(flaw));
        let found = found.expect_err(&format!("{flaw:?} was not found"));
        println!("{flaw:?}: {found}");
        assert!(found.contains(expected), "{flaw:?}: {found}");
    }
}
