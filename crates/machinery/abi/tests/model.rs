//! Tests of the page's lock-free parts in every interleaving that the memory model allows, up to a
//! few preemptions: loom runs each closure repeatedly.
//!
//! The sources are built a second time here, with loom's atomics in place of the processor's
//! (`sync`). Loom cannot model the counter's own ordering (`lfence; rdtsc`); the counter is an
//! atomic here.

#![expect(
    dead_code,
    unreachable_pub,
    unused_imports,
    reason = "sources of a library, of which the models use a part"
)]

#[path = "../src/arch/mod.rs"]
mod arch;
#[path = "../src/counter.rs"]
mod counter;
#[path = "../src/layout.rs"]
mod layout;
#[path = "../src/past.rs"]
mod past;
#[path = "../src/read.rs"]
mod read;
#[path = "../src/scale.rs"]
mod scale;
#[path = "../src/write.rs"]
mod write;

mod sync {
    pub(crate) use loom::hint::spin_loop;
    pub(crate) use loom::sync::atomic::{AtomicI64, AtomicU32, AtomicU64, Ordering, fence};

    pub(crate) const LINES: usize = 4;
}

use counter::CounterKind;
use layout::{ClockPage, MapCopy};
use loom::sync::Arc;
use loom::thread;
use past::Past;
use scale::PageTime;
use sync::{AtomicU32, AtomicU64, Ordering::Relaxed, Ordering::SeqCst};
use timeloom_time::{ClockMap, Instant, Rate};
use write::PageMap;

fn main() {
    let models: [(&str, fn()); 3] = [
        ("no_reader_sees_time_go_back", no_reader_sees_time_go_back),
        ("a_reader_never_mixes_lines", a_reader_never_mixes_lines),
        (
            "a_past_line_is_never_a_mixture",
            a_past_line_is_never_a_mixture,
        ),
    ];
    for (name, model) in models {
        let mut builder = loom::model::Builder::new();
        builder.preemption_bound = Some(2);
        builder.max_branches = 10_000;
        builder.check(model);
        println!("model {name} ... ok");
    }
}

fn new_page() -> ClockPage<PageTime> {
    let copy = || MapCopy {
        counter0: AtomicU64::new(0),
        shown0_ns: Default::default(),
        rate_8_56: AtomicU64::new(0),
        wall_per_shown_32_32: AtomicU64::new(0),
        realtime_offset_ns: Default::default(),
        monotonic_offset_ns: Default::default(),
        boottime_offset_ns: Default::default(),
        tai_offset_ns: Default::default(),
        raw0_ns: Default::default(),
        raw_rate_8_56: AtomicU64::new(0),
        most_ns: Default::default(),
        raw_most_ns: Default::default(),
    };
    ClockPage {
        vmclock: core::array::from_fn(|_| AtomicU64::new(0)),
        magic: AtomicU32::new(0),
        version: AtomicU32::new(0),
        counter: AtomicU32::new(0),
        active: AtomicU32::new(0),
        sequence: AtomicU32::new(0),
        epoch: AtomicU32::new(0),
        host: AtomicU32::new(0),
        steered: AtomicU32::new(0),
        tsc0: AtomicU64::new(0),
        tsc_per_ns_8_56: AtomicU64::new(0),
        released_offset_ns: Default::default(),
        session: AtomicU64::new(0),
        computed: AtomicU64::new(0),
        next_signal_ns: Default::default(),
        dates_from_ns: Default::default(),
        card: Default::default(),
        copies: [copy(), copy()],
        past: Past::default(),
        scale: std::marker::PhantomData,
    }
}

fn line(counter0: u64, shown0_ns: i64, rate: Rate) -> PageMap<PageTime> {
    PageMap {
        map: ClockMap::new(
            Instant::from_ticks(counter0),
            Instant::from_ns(shown0_ns),
            rate,
        ),
        ceiling: Instant::FAR_FUTURE,
        wall_per_shown: Rate::ONE,
        // Distinguishes the lines: the offset is twice the start of its line.
        realtime_offset_ns: 2 * shown0_ns,
        monotonic_offset_ns: 0,
        boottime_offset_ns: 0,
        tai_offset_ns: 0,
        raw0: Instant::ZERO,
        raw_rate: Rate::ONE,
        raw_ceiling: Instant::FAR_FUTURE,
    }
}

/// Returns a page at rate 1, and a counter that advances by ten at each read.
fn world() -> (Arc<ClockPage<PageTime>>, impl Fn() -> u64 + Clone) {
    let page = Arc::new(new_page());
    page.initialise(CounterKind::Tsc, &line(0, 0, Rate::ONE));
    let ticks = Arc::new(AtomicU64::new(10));
    (page, move || ticks.fetch_add(10, SeqCst))
}

/// Stops the clock, then resumes it at double speed.
fn stop_and_go(page: &ClockPage<PageTime>, counter: impl Fn() -> u64) {
    let mut last = line(0, 0, Rate::ONE);
    for rate in [Rate::STOPPED, Rate::from_ratio(2, 1).expect("a rate")] {
        last = page.publish(&counter, |now| {
            let map = last.map.continued(Instant::from_ticks(now), rate);
            line(now, map.out0.as_ns(), rate)
        });
    }
}

fn no_reader_sees_time_go_back() {
    let (page, counter) = world();
    let reader = {
        let (page, counter) = (Arc::clone(&page), counter.clone());
        thread::spawn(move || {
            // The image reads in the same way: first the fast path, then the path that waits.
            let first = page
                .try_read(&counter, |_| 0)
                .unwrap_or_else(|| page.read(&counter, |_| ()).0.as_ns());
            let second = page.read(&counter, |_| ()).0.as_ns();
            assert!(second >= first, "{second} after {first}");
        })
    };
    stop_and_go(&page, &counter);
    reader.join().expect("the reader's assertions hold");
}

fn a_reader_never_mixes_lines() {
    let (page, counter) = world();
    let reader = {
        let (page, counter) = (Arc::clone(&page), counter.clone());
        thread::spawn(move || {
            let (now, (starts_ns, offset_ns)) = page.read(&counter, |copy| {
                (
                    copy.shown0_ns.load(Relaxed),
                    copy.realtime_offset_ns.load(Relaxed),
                )
            });
            assert_eq!(offset_ns, 2 * starts_ns, "of two lines");
            assert!(now.as_ns() >= starts_ns);
        })
    };
    stop_and_go(&page, &counter);
    reader.join().expect("the reader's assertions hold");
}

/// Tests a reader that reads the oldest line while the writer wraps around the ring.
fn a_past_line_is_never_a_mixture() {
    let past = Arc::new(Past::<PageTime>::default());
    let record = |past: &Past<PageTime>, number: i64| {
        past.record(
            Instant::from_ns(1_000 * number),
            Instant::from_ns(7_000 * number),
            Rate::STOPPED,
        );
    };
    let lines = sync::LINES as i64;
    for number in 0..lines {
        record(&past, number);
    }
    let reader = {
        let past = Arc::clone(&past);
        thread::spawn(move || {
            // The instant is on the oldest stored line. If that line is overwritten during the
            // read, the result is the start of a later line.
            let shown = past.at(Instant::from_ns(1_500)).as_ns();
            assert!([7_000, 14_000, 21_000].contains(&shown), "{shown}");
        })
    };
    record(&past, lines);
    record(&past, lines + 1);
    reader.join().expect("the reader's assertions hold");
}
