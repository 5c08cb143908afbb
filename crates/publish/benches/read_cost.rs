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

/// One read of a clock.
type Read<'a> = Box<dyn FnMut() + 'a>;

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
    let mut clocks: Vec<(&str, Read)> = vec![
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
    let (ours, ours_alone) = beside_a_writer(&writer, &fresh, || {
        black_box(reader.read_ns()).unwrap();
    });
    let (vdso, vdso_alone) = beside_a_writer(&writer, &fresh, || {
        black_box(vdso(rustix::time::ClockId::Realtime));
    });
    println!(
        "two threads beside a writer of 100 Hz ÷ one thread alone: interval {ours:.1} ÷ \
         {ours_alone:.1} ns = {:.2}; the vDSO {vdso:.1} ÷ {vdso_alone:.1} ns = {:.2}",
        ours / ours_alone,
        vdso / vdso_alone
    );
}

/// The best cost of a read in two threads beside a writer of 100 Hz, and in one
/// thread alone, interleaved. What two busy cores cost each other anyway is seen
/// by doing the same with a clock that shares nothing of ours.
fn beside_a_writer(
    writer: &PageWriter,
    fresh: &(impl Fn() -> Segment + Sync),
    read: impl Fn() + Sync,
) -> (f64, f64) {
    let batch = || {
        let start = Instant::now();
        for _ in 0..200_000 {
            read();
        }
        start.elapsed().as_nanos() as f64 / 200_000.0
    };
    let rounds = (0..41).map(|_| {
        let alone = batch();
        let done = std::sync::atomic::AtomicBool::new(false);
        let relaxed = std::sync::atomic::Ordering::Relaxed;
        let together = std::thread::scope(|scope| {
            scope.spawn(|| {
                while !done.load(relaxed) {
                    writer.publish(&fresh());
                    std::thread::sleep(std::time::Duration::from_millis(10));
                }
            });
            let other = scope.spawn(batch);
            let mine = batch();
            let theirs = other.join().unwrap();
            done.store(true, relaxed);
            mine.min(theirs)
        });
        (together, alone)
    });
    let (together, alone): (Vec<f64>, Vec<f64>) = rounds.unzip();
    let best = |costs: &[f64]| costs.iter().copied().fold(f64::MAX, f64::min);
    (best(&together), best(&alone))
}
