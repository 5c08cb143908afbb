//! Events are handled in the specified order, whatever the queue in use.

mod common;

use common::dice;
use timeloom_engine::queue::{EventQueue, Heap4, Wheel};
use timeloom_engine::{Event, NodeId, Random};
use timeloom_time::Instant;

fn history<Q: EventQueue>(seed: u64) -> String {
    let mut engine = dice::<Q>(seed, 200);
    engine.run_until(Instant::FAR_FUTURE, 20_000);
    engine.model.trace
}

#[test]
fn the_same_seed_gives_the_same_bytes() {
    assert_eq!(history::<Wheel>(1), history::<Wheel>(1));
    assert_ne!(history::<Wheel>(1), history::<Wheel>(2));
}

#[test]
fn both_queues_give_the_same_bytes() {
    for seed in 0..5 {
        let reference = history::<Heap4>(seed);
        assert!(reference == history::<Wheel>(seed), "wheel, seed {seed}");
    }
}

/// Compares pushes and pops with limits against a sorted list. The input includes events earlier
/// than those already popped, instants before zero, and long gaps.
fn against_a_sorted_list<Q: EventQueue>(seed: u64) {
    let mut random = Random::new(seed, 1);
    let mut queue = Q::default();
    let mut list: Vec<Event> = Vec::new();
    let mut around = 0;
    for seq in 0..5_000 {
        let spread = [1, 100, 10_000, 5_000_000, 1_000_000_000][random.below(5) as usize];
        if random.chance(0.55) {
            let at = around + random.below(spread) as i64 - spread as i64 / 10;
            let event = Event {
                at: Instant::from_ns(at),
                seq,
                node: NodeId(random.below(3) as u32),
                token: 0,
            };
            queue.push(event);
            list.push(event);
            list.sort_unstable_by(|a, b| b.cmp(a));
        } else {
            let limit = Instant::from_ns(around + random.below(spread) as i64);
            let expected = list.pop_if(|event| event.at <= limit);
            assert_eq!(queue.pop_due(limit), expected, "seed {seed}");
            around = expected.map_or(around, |event| event.at.as_ns());
        }
        let first = list.last().map(|event| event.at);
        assert_eq!(queue.first_at(), first, "seed {seed}");
        assert_eq!(queue.len(), list.len());
    }
}

#[test]
fn both_queues_agree_with_a_sorted_list() {
    for seed in 0..4 {
        against_a_sorted_list::<Heap4>(seed);
        against_a_sorted_list::<Wheel>(seed);
    }
}
