//! Measurements of reads in this process.

use std::hint::black_box;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::Duration as StdDuration;

use timeloom_clock::TimelineTime;
use timeloom_clock::counter::{CoreClock, CycleCounter as _, Frequency, SharedStrict, Strict};
use timeloom_time::Instant;
use timeloom_timeline::shm::{CoreCycles, PageReader};

use super::BENCH;
use super::cycles::Cycles;
use super::page::{Published, clock_ns};
use crate::Options;
use crate::error::BenchError;
use crate::figure::Figure;
use crate::rounds::{Clock, Paired, Rounds};
use crate::stats::median;
use crate::ticks::{self, Scale};

/// Measures each clock against the kernel's clocks.
pub(super) fn reads(
    options: &Options,
    published: &Published,
    scale: Scale,
    figure: &mut dyn FnMut(Figure),
) -> Result<(), BenchError> {
    let reader = published.reader()?;
    let estimate = |reader: &PageReader| {
        let reading = reader.read_ns().expect("a good page");
        Instant::<TimelineTime>::from_ns(reading.estimate_ns)
    };
    assert!(
        reader.read_ns().is_ok_and(|reading| reading.bounded),
        "the good case is what is measured"
    );
    let (mut strict, shared) = (Strict::<TimelineTime>::new(), SharedStrict::new());
    let mut clocks: [Clock<'_>; 4] = [
        Box::new(|batch| {
            for _ in 0..batch {
                let _ = black_box(reader.read_ns());
            }
        }),
        Box::new(|batch| {
            for _ in 0..batch {
                black_box(strict.next(estimate(&reader)));
            }
        }),
        Box::new(|batch| {
            for _ in 0..batch {
                black_box(shared.next(estimate(&reader)));
            }
        }),
        Box::new(|batch| {
            for _ in 0..batch {
                let _ = black_box(reader.read());
            }
        }),
    ];
    let rounds = options.pick(101, 601);
    let mut realtime = vdso(libc::CLOCK_REALTIME);
    let beside = Rounds::local(rounds, BATCH, &mut realtime, &mut clocks, scale);
    let bars = [
        ("interval_over_vdso", Some(1.10)),
        ("sip_thread_over_vdso", Some(1.15)),
        ("sip_process_over_vdso", Some(1.40)),
        ("stamp_over_vdso", None),
    ];
    for ((metric, bar), paired) in bars.into_iter().zip(&beside) {
        figure(described(metric, bar, paired, "CLOCK_REALTIME"));
    }
    rvec(options, published, scale, figure)
}

/// Measures RVEC over the time-stamp counter against CLOCK_MONOTONIC, which is the paper's own
/// comparison (Table 3).
fn rvec(
    options: &Options,
    published: &Published,
    scale: Scale,
    figure: &mut dyn FnMut(Figure),
) -> Result<(), BenchError> {
    let (Some(line), Ok(tsc)) = (published.scale(), Cycles::trusted()) else {
        (options.remark)(
            "there is no time-stamp counter, or the kernel does not trust it; rvec_over_monotonic is left out",
        );
        return Ok(());
    };
    let hz = (1e9 / line.rate.as_f64()).round() as u64;
    let frequency = Frequency::from_hz(hz).expect("a counter that counts");
    let mut clock = CoreClock::new(&tsc, frequency);
    let mut clocks: [Clock<'_>; 3] = [
        Box::new(move |batch| {
            for _ in 0..batch {
                black_box(clock.read(&tsc));
            }
        }),
        Box::new(move |batch| {
            for _ in 0..batch {
                black_box(tsc.cycles());
            }
        }),
        vdso(libc::CLOCK_REALTIME),
    ];
    let mut monotonic = vdso(libc::CLOCK_MONOTONIC);
    let rounds = options.pick(101, 601);
    let beside = Rounds::local(rounds, BATCH, &mut monotonic, &mut clocks, scale);
    let bars = [
        ("rvec_over_monotonic", Some(1.15)),
        ("counter_over_monotonic", None),
        ("realtime_over_monotonic", None),
    ];
    for ((metric, bar), paired) in bars.into_iter().zip(&beside) {
        figure(described(metric, bar, paired, "CLOCK_MONOTONIC"));
    }
    match CoreCycles::open() {
        Ok(cycles) => {
            let is_fast = cycles.is_fast();
            let mut core: [Clock<'_>; 1] = [Box::new(move |batch| {
                for _ in 0..batch {
                    black_box(cycles.cycles());
                }
            })];
            let beside = Rounds::local(rounds, BATCH, &mut monotonic, &mut core, scale);
            let made = described(
                "core_cycles_over_monotonic",
                None,
                &beside[0],
                "CLOCK_MONOTONIC",
            );
            figure(made.with("without_system_call", is_fast));
        }
        Err(reason) => {
            (options.remark)(&format!("{reason}; core_cycles_over_monotonic is left out"))
        }
    }
    Ok(())
}

fn described(metric: &str, bar: Option<f64>, paired: &Paired, base: &str) -> Figure {
    let figure = Figure::new(BENCH, metric, "ratio", &paired.ratios)
        .with("over", base)
        .with("reads_per_round", BATCH)
        .with("read_ns", median(&paired.ns))
        .with("vdso_ns", median(&paired.base_ns));
    match bar {
        Some(bar) => figure.bar(bar),
        None => figure,
    }
}

fn vdso<'a>(clock: libc::clockid_t) -> Clock<'a> {
    Box::new(move |batch| {
        for _ in 0..batch {
            black_box(clock_ns(clock));
        }
    })
}

/// Measures the publication of a segment: its conversion, and the stores of two copies.
pub(super) fn publish(
    options: &Options,
    published: &Published,
    scale: Scale,
    figure: &mut dyn FnMut(Figure),
) {
    let segments: Vec<_> = (0..1_000).map(|_| published.segment()).collect();
    let samples: Vec<f64> = (0..options.pick(31, 301))
        .map(|_| {
            let begun = ticks::now();
            segments
                .iter()
                .for_each(|segment| published.publish_this(segment));
            scale.between_ns(begun, ticks::now()) / segments.len() as f64
        })
        .collect();
    figure(
        Figure::new(BENCH, "publish_ns", "ns", &samples)
            .bar(200.0)
            .with("publications_per_round", segments.len()),
    );
    published.publish();
}

/// Measures reads in as many threads as there are processors, with a writer at 100 Hz, divided by
/// reads in one thread alone. The same is measured for the kernel's clock, which shares nothing
/// with the timeline. Its result shows how much busy processors slow each other down in general.
pub(super) fn readers(
    options: &Options,
    published: &Published,
    scale: Scale,
    figure: &mut dyn FnMut(Figure),
) -> Result<(), BenchError> {
    let threads = std::thread::available_parallelism().map_or(2, usize::from);
    let reader = published.reader()?;
    let read = || {
        let _ = black_box(reader.read_ns());
    };
    let native = || {
        black_box(clock_ns(libc::CLOCK_REALTIME));
    };
    let (mut ours, mut kernels) = (Vec::new(), Vec::new());
    for _ in 0..options.pick(21, 101) {
        ours.push(together(published, threads, scale, &read) / alone(scale, read));
        kernels.push(together(published, threads, scale, &native) / alone(scale, native));
    }
    figure(
        Figure::new(BENCH, "readers_N_over_1", "ratio", &ours)
            .bar(1.10)
            .with("readers", threads)
            .with("writer_hz", 100)
            .with("the_same_of_the_vdso", median(&kernels)),
    );
    Ok(())
}

/// Returns ns per read as the median of many batches, so that a batch that was interrupted by
/// another thread has no effect.
fn alone(scale: Scale, read: impl Fn()) -> f64 {
    let batch = || {
        let begun = ticks::now();
        for _ in 0..BATCH {
            read();
        }
        scale.between_ns(begun, ticks::now()) / f64::from(BATCH)
    };
    let batches: Vec<f64> = (0..BATCHES_BESIDE).map(|_| batch()).collect();
    median(&batches)
}

/// Returns the mean ns per read of readers that run at the same time.
fn together(published: &Published, threads: usize, scale: Scale, read: &(impl Fn() + Sync)) -> f64 {
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !done.load(Relaxed) {
                published.publish();
                std::thread::sleep(StdDuration::from_millis(10));
            }
        });
        let others: Vec<_> = (1..threads)
            .map(|_| scope.spawn(|| alone(scale, read)))
            .collect();
        let mine = alone(scale, read);
        let all: f64 = others
            .into_iter()
            .map(|other| other.join().expect("a read does not panic"))
            .sum();
        done.store(true, Relaxed);
        (mine + all) / threads as f64
    })
}

const BATCH: u32 = 5_000;
/// Number of batches, which take about 5 ms: long compared with the start of a thread.
const BATCHES_BESIDE: u32 = 51;
