//! Compares the queue in use with three others on the hold model: each hold takes the first event
//! out and puts it back at a random later instant, so the number of events is constant.
//!
//! Run it with `cargo bench -p timeloom-engine`; append `-- --quick` for a run of a few seconds.
//!
//! The benchmark first checks that all queues return the same events in the same order. Then it
//! prints one JSON line per queue, distribution and number of events: the median over interleaved
//! rounds, in ns of CPU time per hold.

mod calendar;
mod ladder;

use calendar::Calendar;
use ladder::Ladder;
use timeloom_engine::queue::{EventQueue, Heap4, Wheel};
use timeloom_engine::{Event, NodeId, Random};
use timeloom_time::{Duration, Instant};

/// Distribution of the delay, in ns, after which an event is put back.
#[derive(Clone, Copy)]
enum Wait {
    /// Exponential; the mean grows with the number of events, so that there is one event per 300
    /// ns.
    Exponential,
    /// Delays as in a network: 50 % are about 1.2 µs, 47 % about 1 ms, 3 % 200 ms.
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

/// Returns the CPU time of this thread in ns, from the scheduler's statistics. Unlike elapsed time,
/// it does not contain the time of other programs.
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
    // Reach the steady state before measuring.
    (0..holds / 2).for_each(|seq| hold(seq + u64::from(population)));
    let start = cpu_ns();
    (0..holds).for_each(|seq| hold(seq + holds + u64::from(population)));
    (cpu_ns() - start) as f64 / holds as f64
}

/// Runs random pushes and pops with limits, and returns the result of each pop. The input contains
/// ties, events earlier than events already popped, and long gaps.
fn order<Q: EventQueue>(seed: u64) -> Vec<Option<Event>> {
    let mut random = Random::new(seed, 1);
    let mut queue = Q::default();
    let mut popped = Vec::new();
    let mut around = 0;
    for seq in 0..5_000 {
        let spread = [1, 100, 10_000, 5_000_000, 1_000_000_000][random.below(5) as usize];
        if random.chance(0.55) {
            queue.push(Event {
                at: Instant::from_ns(around + random.below(spread) as i64 - spread as i64 / 10),
                seq,
                node: NodeId(random.below(3) as u32),
                token: 0,
            });
        } else {
            let first = queue.first_at();
            let event = queue.pop_due(Instant::from_ns(around + random.below(spread) as i64));
            assert!(
                event.is_none_or(|event| Some(event.at) == first),
                "seed {seed}"
            );
            around = event.map_or(around, |event| event.at.as_ns());
            popped.push(event);
        }
    }
    popped.extend(core::iter::from_fn(|| queue.pop()).map(Some));
    assert!(queue.is_empty(), "seed {seed}");
    popped
}

fn check_order() {
    for seed in 0..4 {
        let reference = order::<Heap4>(seed);
        assert_eq!(order::<Wheel>(seed), reference, "wheel, seed {seed}");
        assert_eq!(order::<Calendar>(seed), reference, "calendar, seed {seed}");
        assert_eq!(order::<Ladder>(seed), reference, "ladder, seed {seed}");
    }
}

fn main() {
    check_order();
    let asked = |word: &str| std::env::args().any(|argument| argument == word);
    if !asked("--bench") {
        return; // built by `cargo test`, which only checks that it runs
    }
    let (most, rounds) = if asked("--quick") {
        (10_000, 3)
    } else {
        (1_000_000, 5)
    };
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
        for population in [1_000, 10_000, 100_000, 1_000_000]
            .into_iter()
            .filter(|each| *each <= most)
        {
            let holds = 1_000_000.max(u64::from(population) * 2);
            let mut results = vec![Vec::new(); queues.len()];
            for _ in 0..rounds {
                for (result, (_, round)) in results.iter_mut().zip(queues) {
                    result.push(round(wait, population, holds));
                }
            }
            for (mut result, (queue, _)) in results.into_iter().zip(queues) {
                result.sort_by(f64::total_cmp);
                println!(
                    "{{\"bench\":\"hold\",\"queue\":\"{queue}\",\"waits\":\"{name}\",\"population\":{population},\
                     \"ns_per_hold\":{:.0},\"min\":{:.0},\"max\":{:.0}}}",
                    result[rounds / 2],
                    result[0],
                    result[rounds - 1]
                );
            }
        }
    }
}
