//! Model with a history that is easy to compare: each event rolls dice.
#![allow(dead_code, reason = "each test file uses a part")]

use std::fmt::Write;

use timeloom_engine::queue::EventQueue;
use timeloom_engine::{Agenda, Engine, Event, Model, NodeId, Random};
use timeloom_time::Duration;

/// Model in which each event records itself and schedules another event, at a random node after a
/// random delay; often several events have the same instant.
pub(crate) struct Dice {
    random: Random,
    pub(crate) trace: String,
}

impl<Q: EventQueue> Model<Q> for Dice {
    fn handle(&mut self, event: Event, agenda: &mut Agenda<Q>) {
        let (at, node) = (event.at.as_ns(), event.node.0);
        writeln!(self.trace, "{at} {node} {} {}", event.seq, event.token).unwrap();
        // Delays in whole microseconds cause ties; the long delays exceed the wheel's horizon.
        let wait = match self.random.below(10) {
            0 => Duration::ZERO,
            1..=6 => Duration::from_us(self.random.below(5) as i64),
            7..=8 => Duration::from_us(self.random.below(1_000) as i64),
            _ => Duration::from_ms(self.random.below(200) as i64),
        };
        let node = NodeId(self.random.below(5) as u32);
        agenda.schedule(agenda.now() + wait, node, event.token);
    }
}

/// Returns an engine whose model starts with `tokens` events.
pub(crate) fn dice<Q: EventQueue>(seed: u64, tokens: u32) -> Engine<Dice, Q> {
    let mut engine = Engine::new(Dice {
        random: Random::new(seed, 0),
        trace: String::new(),
    });
    for token in 0..tokens {
        engine.inject(engine.now(), NodeId(token % 5), token);
    }
    engine
}
