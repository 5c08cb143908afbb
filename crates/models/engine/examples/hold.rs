//! Measures the event queues on the hold model: take the first event, put it
//! back a random while later, with a constant population.
//!
//! `cargo run --release -p timeloom-engine --example hold`
//!
//! Prints one JSON line per queue, distribution and population: the median of
//! interleaved rounds, in ns of CPU time per hold.

use timeloom_engine::queue::{Calendar, EventQueue, Heap4, Ladder, Wheel};
use timeloom_engine::{Event, NodeId, Random};
use timeloom_time::{Duration, Instant};

/// How far ahead an event is put back, in ns.
#[derive(Clone, Copy)]
enum Wait {
    /// Exponential with a mean that keeps 1 event per 300 ns.
    Exponential,
    /// As a network has them: 50 % about 1.2 µs, 47 % about 1 ms, 3 % 200 ms.
    Network,
}

impl Wait {
    fn draw(self, random: &mut Random, population: u32) -> i64 {
        match self {
            Self::Exponential => random.exponential(f64::from(population) * 300.0) as i64,
            Self::Network => match random.below(100) {
                0..50 => 1_000 + random.below(400) as i64,
                50..97 => 950_000 + random.below(100_000) as i64,
                _ => 200_000_000,
            },
        }
    }
}

/// CPU time of this thread in ns, from the scheduler: other programs on the
/// machine do not count.
fn cpu_ns() -> u64 {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
    let first = text.split_whitespace().next();
    first.and_then(|word| word.parse().ok()).unwrap_or(0)
}

fn round<Q: EventQueue>(wait: Wait, population: u32, holds: u64) -> f64 {
    let mut random = Random::new(5, 0);
    let mut queue = Q::default();
    let waits: Vec<i64> = (0..1 << 16)
        .map(|_| wait.draw(&mut random, population))
        .collect();
    for node in 0..population {
        queue.push(Event {
            at: Instant::from_ns(waits[node as usize % waits.len()]),
            seq: u64::from(node),
            node: NodeId(node),
            token: 0,
        });
    }
    let mut hold = |seq: u64| {
        let mut event = queue.pop().expect("the population is constant");
        event.at += Duration::from_ns(waits[(seq as usize * 7) % waits.len()]);
        event.seq = seq;
        queue.push(event);
    };
    // Reach the steady state first.
    (0..holds / 2).for_each(|seq| hold(seq + u64::from(population)));
    let start = cpu_ns();
    (0..holds).for_each(|seq| hold(seq + holds + u64::from(population)));
    (cpu_ns() - start) as f64 / holds as f64
}

fn main() {
    type Round = fn(Wait, u32, u64) -> f64;
    let queues: [(&str, Round); 4] = [
        ("heap4", round::<Heap4>),
        ("calendar", round::<Calendar>),
        ("ladder", round::<Ladder>),
        ("wheel", round::<Wheel>),
    ];
    for (name, wait) in [
        ("exponential", Wait::Exponential),
        ("network", Wait::Network),
    ] {
        for population in [1_000, 10_000, 100_000, 1_000_000] {
            let holds = 1_000_000.max(u64::from(population) * 2);
            let mut results = vec![Vec::new(); queues.len()];
            for _ in 0..5 {
                for (result, (_, round)) in results.iter_mut().zip(queues) {
                    result.push(round(wait, population, holds));
                }
            }
            for (mut result, (queue, _)) in results.into_iter().zip(queues) {
                result.sort_by(f64::total_cmp);
                println!(
                    "{{\"bench\":\"hold\",\"queue\":\"{queue}\",\"waits\":\"{name}\",\"population\":{population},\
                     \"ns_per_hold\":{:.0},\"min\":{:.0},\"max\":{:.0}}}",
                    result[2], result[0], result[4]
                );
            }
        }
    }
}
