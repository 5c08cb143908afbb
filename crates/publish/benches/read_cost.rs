//! What a read costs beside the kernel's own: ratios of one interleaved run.
//!
//! `cargo bench -p timeloom-publish`. Each round times every clock once, so that
//! what else the machine does falls on all of them; a ratio is the median of the
//! rounds' ratios, and the nanoseconds are the best round's.

#[path = "../tests/common/mod.rs"]
mod common;

use std::hint::black_box;
use std::time::Instant;

use common::{ID, segment};
use timeloom_clock::counter::{SharedStrict, Strict};
use timeloom_clock::timeline::Segment;
use timeloom_page::CounterKind;
use timeloom_publish::{CoreScale, PageReader, PageWriter};
use timeloom_time::{Instant as At, Rate};

const ROUNDS: usize = 301;
const BATCH: u32 = 5_000;

fn vdso(clock: rustix::time::ClockId) -> i64 {
    let now = rustix::time::clock_gettime(clock);
    now.tv_sec * 1_000_000_000 + now.tv_nsec
}

fn main() {
    // The nominal rate does not matter for the cost; 2 GHz will do.
    let scale = CoreScale::new(At::ZERO, At::ZERO, Rate::from_ratio(1, 2).unwrap());
    let writer = PageWriter::in_memory(ID, CounterKind::Tsc, Some(scale)).unwrap();
    let reader = PageReader::open(writer.fd()).unwrap();
    let fresh = || -> Segment {
        let core = writer.core_at(writer.ticks());
        let mut fresh = segment(core.as_ns(), 1_800_000_000_000_000_000);
        fresh.fresh_until = fresh.void_after;
        fresh
    };
    writer.publish(&fresh());
    let mut strict = Strict::<timeloom_clock::Timeline>::new();
    let shared = SharedStrict::new();
    let estimate = || At::from_ns(reader.read_ns().unwrap().estimate_ns);
    let mut clocks: Vec<(&str, Box<dyn FnMut() + '_>)> = vec![
        (
            "vdso_realtime",
            Box::new(|| {
                black_box(vdso(rustix::time::ClockId::Realtime));
            }),
        ),
        (
            "vdso_monotonic",
            Box::new(|| {
                black_box(vdso(rustix::time::ClockId::Monotonic));
            }),
        ),
        (
            "interval",
            Box::new(|| {
                black_box(reader.read_ns()).unwrap();
            }),
        ),
        (
            "stamp",
            Box::new(|| {
                black_box(reader.read()).unwrap();
            }),
        ),
        (
            "strict_thread",
            Box::new(|| {
                black_box(strict.next(estimate()));
            }),
        ),
        (
            "strict_process",
            Box::new(|| {
                black_box(shared.next(estimate()));
            }),
        ),
    ];
    assert!(
        reader.read_ns().unwrap().bounded,
        "the good path is what is measured"
    );
    let mut costs = vec![Vec::with_capacity(ROUNDS); clocks.len()];
    for _ in 0..ROUNDS {
        for ((_, read), costs) in clocks.iter_mut().zip(&mut costs) {
            let start = Instant::now();
            for _ in 0..BATCH {
                read();
            }
            costs.push(start.elapsed().as_nanos() as f64 / f64::from(BATCH));
        }
    }
    let names: Vec<&str> = clocks.iter().map(|(name, _)| *name).collect();
    drop(clocks);
    for (name, cost) in names.iter().zip(&costs) {
        let mut ratios: Vec<f64> = cost.iter().zip(&costs[0]).map(|(a, b)| a / b).collect();
        ratios.sort_by(f64::total_cmp);
        let best = cost.iter().copied().fold(f64::MAX, f64::min);
        let base = costs[0].iter().copied().fold(f64::MAX, f64::min);
        println!(
            "{name:16} best {best:6.1} ns   best ÷ best REALTIME {:5.2}   median ratio {:5.2}",
            best / base,
            ratios[ROUNDS / 2]
        );
    }
    let segments: Vec<Segment> = (0..1_000).map(|_| fresh()).collect();
    let best = (0..50).map(|_| {
        let start = Instant::now();
        segments.iter().for_each(|segment| writer.publish(segment));
        start.elapsed().as_nanos() as f64 / 1_000.0
    });
    println!(
        "publish          best {:6.1} ns",
        best.fold(f64::MAX, f64::min)
    );
}
