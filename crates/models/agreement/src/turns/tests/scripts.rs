//! Scripts of three nodes, each for one difficulty.

use super::program::Effect::{self, Leave, Local, Send};
use super::program::Script;

const fn send(to: usize, delay: i64, label: u64) -> Effect {
    Send { to, delay, label }
}

const fn local(delay: i64, rank: u32, label: u64) -> Effect {
    Local { delay, rank, label }
}

/// Events of all nodes at two instants, and messages without a delay among them.
pub(super) const TIES: Script = Script {
    name: "ties",
    lookahead: 0,
    first: &[
        (0, 0, 2, 1),
        (1, 0, 1, 2),
        (2, 0, 1, 3),
        (0, 5, 2, 4),
        (2, 5, 2, 5),
    ],
    effects: &[
        (1, send(1, 0, 10)),
        (1, local(5, 1, 11)),
        (2, send(0, 5, 12)),
        (2, send(2, 5, 13)),
        (3, send(0, 5, 14)),
        (3, send(1, 5, 15)),
        (4, send(2, 0, 16)),
        (16, send(0, 0, 17)),
        (13, local(0, 1, 18)),
    ],
};

/// A message and its answer, both before the sender's next event.
pub(super) const ANSWER: Script = Script {
    name: "answer",
    lookahead: 0,
    first: &[(0, 0, 1, 1), (0, 50, 1, 2), (2, 100, 1, 3), (2, 20, 1, 4)],
    effects: &[
        (1, send(1, 10, 10)),
        (10, send(0, 10, 11)),
        (10, local(40, 2, 12)),
        (11, send(2, 30, 13)),
        (4, send(1, 30, 14)),
        (14, send(0, 50, 15)),
        (2, send(1, 0, 16)),
    ],
};

/// The same with a lookahead equal to the delays.
pub(super) const ANSWER_AHEAD: Script = Script {
    name: "answer, with a lookahead",
    lookahead: 10,
    first: &[
        (0, 0, 1, 1),
        (0, 40, 1, 2),
        (0, 75, 1, 3),
        (2, 200, 1, 4),
        (2, 20, 1, 5),
    ],
    effects: &[
        (1, send(1, 10, 10)),
        (10, send(0, 10, 11)),
        (10, local(80, 2, 12)),
        (11, send(2, 80, 13)),
        (2, send(1, 10, 14)),
        (14, send(0, 10, 15)),
        (15, send(2, 10, 16)),
        (16, send(0, 15, 17)),
        (5, send(1, 130, 18)),
        (4, send(1, 10, 19)),
    ],
};

/// Events exactly at, and one nanosecond before, the end of what the lookahead allows.
pub(super) const EDGE: Script = Script {
    name: "edge of the lookahead",
    lookahead: 10,
    first: &[
        (0, 9, 1, 1),
        (0, 10, 1, 2),
        (1, 0, 1, 3),
        (1, 20, 1, 4),
        (2, 0, 2, 5),
    ],
    effects: &[
        (3, send(0, 10, 10)),
        (3, send(2, 10, 11)),
        (5, send(0, 10, 12)),
        (5, send(1, 20, 13)),
        (10, send(1, 10, 14)),
        (2, send(2, 11, 15)),
        (11, local(10, 1, 16)),
    ],
};

/// A node leaves while messages to it are under way.
pub(super) const LEAVE: Script = Script {
    name: "leave",
    lookahead: 0,
    first: &[
        (0, 0, 1, 1),
        (1, 20, 1, 2),
        (1, 40, 1, 3),
        (2, 0, 1, 4),
        (2, 30, 1, 5),
    ],
    effects: &[
        (1, send(1, 20, 10)),
        (1, send(1, 25, 11)),
        (1, local(20, 2, 12)),
        (4, send(1, 30, 13)),
        (2, send(0, 10, 14)),
        (2, Leave),
        (12, send(1, 5, 15)),
        (5, send(1, 0, 16)),
        (5, send(0, 0, 17)),
    ],
};

/// The same with a lookahead, and a node without events of its own.
pub(super) const LEAVE_AHEAD: Script = Script {
    name: "leave, with a lookahead",
    lookahead: 5,
    first: &[(0, 0, 1, 1), (1, 20, 1, 2), (1, 40, 1, 3), (0, 22, 1, 5)],
    effects: &[
        (1, send(1, 20, 10)),
        (1, send(1, 25, 11)),
        (1, send(2, 5, 12)),
        (12, send(1, 15, 13)),
        (12, send(0, 15, 14)),
        (2, send(0, 10, 15)),
        (2, Leave),
        (14, send(1, 5, 16)),
        (5, send(2, 5, 17)),
    ],
};

pub(super) const SCRIPTS: [Script; 6] = [TIES, ANSWER, ANSWER_AHEAD, EDGE, LEAVE, LEAVE_AHEAD];
