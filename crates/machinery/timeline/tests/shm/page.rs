//! Tests of a timeline's page as its readers see it.

use crate::common::{ID, segment};
use proptest::prelude::*;
use timeloom_clock::RateError;
use timeloom_clock::quality::Status;
use timeloom_clock::timeline::{LocalNow, Segment};
use timeloom_time::{Duration, Instant, Rate};
use timeloom_timeline::shm::PageCounter;
use timeloom_timeline::shm::foreign::vmclock::{self, Vmclock};
use timeloom_timeline::shm::{CoreScale, PageReader, PageSegment, PageWriter, TimeType};

fn in_nanoseconds() -> (PageWriter, PageReader) {
    let writer = if cfg!(miri) {
        // Miri has no memfd, and runs several seeds at once in one process.
        let mut names = (0..).map(|number| format!("miri.{number}"));
        let place = std::path::Path::new(env!("CARGO_TARGET_TMPDIR"));
        let directory = names.find_map(|name| {
            let directory = place.join(name);
            std::fs::create_dir(&directory).ok().map(|()| directory)
        });
        let directory = directory.unwrap();
        let path = directory.join("page");
        let writer = PageWriter::at_path(&path, ID, PageCounter::Monotonic, None);
        std::fs::remove_dir_all(directory).unwrap();
        writer.unwrap()
    } else {
        PageWriter::in_memory(ID, PageCounter::Monotonic, None).unwrap()
    };
    let reader = PageReader::open(writer.fd()).unwrap();
    (writer, reader)
}

/// Returns the map of a counter of about 2.1 GHz that started 5 s before the core clock's zero.
fn fast() -> CoreScale {
    let rate = Rate::from_ratio(1_000_000_000, 2_112_345_678).unwrap();
    CoreScale::new(
        Instant::from_ticks(0),
        Instant::from_ns(-5_000_000_000),
        rate,
    )
}

fn at(core: Instant<timeloom_clock::Core>) -> LocalNow {
    LocalNow {
        core,
        marker: 0,
        suspended: Duration::ZERO,
        witness: None,
    }
}

#[test]
fn a_fresh_page_knows_nothing_and_is_shared_between_threads() {
    fn shared<T: Send + Sync>(_: &T) {}
    let (_writer, reader) = in_nanoseconds();
    shared(&reader);
    let stamp = reader.read().unwrap();
    assert_eq!(
        (stamp.timeline(), stamp.status()),
        (ID, Status::NeverSynchronised)
    );
    assert_eq!(stamp.interval(), None);
}

#[test]
fn age_and_disruption_are_found_by_the_reader() {
    let (writer, reader) = in_nanoseconds();
    let start = 10_000_000_000;
    let good = segment(start, 77_000_000_000);
    writer.publish(&good);
    let read = |ns: u64| reader.read_with(|| ns).unwrap();
    let start = start as u64;
    assert_eq!(read(start + 1).status, Status::Ok);
    assert_eq!(read(start + 17_000_000_000).status, Status::SourceLost);
    assert!(read(start + 17_000_000_000).bounded);
    let void = read(start + 1_001_000_000_000);
    assert!(!void.bounded && void.below_ns == u64::MAX);
    writer.keep_alive(Instant::from_ns(start as i64 + 3));
    assert_eq!(read(start + 4).status, Status::DaemonDead);
    writer.keep_alive(Instant::FAR_FUTURE);
    assert_eq!(read(start + 4).status, Status::Ok);
    // The counter of another core may be a microsecond behind. A counter further behind has gone
    // backwards.
    assert_eq!(read(start - 900).status, Status::Ok);
    assert_eq!(read(start - 1_100).status, Status::Disrupted);
    writer.disrupt();
    assert_eq!(read(start + 4).status, Status::Disrupted);
    let marker = good.origin.marker + 1;
    writer.publish(&Segment {
        origin: LocalNow {
            marker,
            ..good.origin
        },
        ..good
    });
    assert_eq!(read(start + 4).status, Status::Ok);
}

/// Linux as of 6.13 computes UTC from a page's TAI by adding the field (`tai_adjust()` in
/// `ptp_vmclock.c`); since 2026 it computes TAI from a page's UTC by subtracting it.
#[test]
fn linux_makes_utc_of_the_page_and_our_readers_know_tai_minus_utc() {
    let (writer, reader) = in_nanoseconds();
    writer.set_time_type(TimeType::Tai(Some(37)));
    writer.publish(&segment(10_000_000_000, 1_700_000_037_000_000_000));
    let mut bytes = [0; 112];
    rustix::io::pread(writer.fd(), &mut bytes, 0).unwrap();
    let page = Vmclock::parse(&bytes).unwrap();
    assert_eq!(page.time_type, vmclock::TIME_TAI);
    assert_ne!(page.flags & vmclock::TAI_OFFSET_VALID, 0);
    let utc_s = page.time_s.checked_add_signed(page.tai_offset_s.into());
    assert_eq!(utc_s, Some(1_700_000_000));
    assert_eq!(reader.tai_offset_s(), Some(37));
    writer.set_time_type(TimeType::Tai(None));
    writer.publish(&segment(11_000_000_000, 1_700_000_038_000_000_000));
    assert_eq!(reader.tai_offset_s(), None);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, failure_persistence: None, ..ProptestConfig::default() })]
    #[test]
    #[cfg_attr(miri, ignore = "arithmetic, which takes Miri too long")]
    fn the_page_is_never_narrower_than_the_segment_and_hardly_wider(
        core_ns in 0i64..1 << 58, shows_ns in 0i64..1 << 61, ages in prop::collection::vec(0u64..2_112_000_000_000, 1..20),
        rate_ppt in -600_000_000i64..600_000_000, growth in prop::array::uniform2(0i64..600_000_000),
    ) {
        let scale = fast();
        let writer = PageWriter::in_memory(ID, PageCounter::Tsc, Some(scale)).unwrap();
        let reader = PageReader::open(writer.fd()).unwrap();
        let mut segment = segment(core_ns, shows_ns);
        segment.map.rate = RateError::from_ppt(rate_ppt).to_rate();
        [segment.below_growth, segment.above_growth] = growth.map(RateError::from_ppt);
        writer.publish(&segment);
        let counter0 = PageSegment::new(&segment, &scale).counter0;
        let vmclock = Vmclock::of(&segment, &PageSegment::new(&segment, &scale), PageCounter::Tsc);
        for age in ages {
            let reading = reader.read_with(|| counter0 + age).unwrap();
            let exact = segment.read(&at(scale.at(Instant::from_ticks(counter0 + age))));
            prop_assert_eq!(reading.status, exact.status());
            let (page, exact) = (reading.stamp(ID).interval().unwrap(), exact.interval().unwrap());
            prop_assert!(page.earliest() <= exact.earliest(), "{:?} {:?}", page, exact);
            prop_assert!(page.latest() >= exact.latest(), "{:?} {:?}", page, exact);
            prop_assert!(page.width() - exact.width() < Duration::from_ns(20), "{:?} {:?}", page, exact);
            // A reader of vmclock gets the same time, with an error that covers the difference.
            let (s, frac) = vmclock.at(counter0 + age).unwrap();
            let ns = s as i128 * 1_000_000_000 + ((u128::from(frac) * 1_000_000_000) >> 64) as i128;
            prop_assert!((ns - i128::from(reading.estimate_ns)).abs() <= 2, "{} {:?}", ns, reading);
            let period_error = (u128::from(age) * u128::from(vmclock.period_maxerror) * 1_000_000_000) >> 86;
            let error = vmclock.time_maxerror_ns as u128 + period_error + 2;
            prop_assert!(error >= u128::from(reading.below_ns.max(reading.above_ns)), "{} {:?}", error, reading);
        }
    }
}

#[test]
#[cfg_attr(miri, ignore = "Miri's pages are not in their files")]
fn readers_of_vmclock_find_it_in_the_first_bytes() {
    let writer = PageWriter::in_memory(ID, PageCounter::Tsc, Some(fast())).unwrap();
    writer.publish(&segment(10_000_000_000, 77_500_000_000));
    let file = std::fs::File::open(format!(
        "/proc/self/fd/{}",
        std::os::fd::AsRawFd::as_raw_fd(&writer.fd())
    ));
    let mut bytes = [0; 112];
    std::io::Read::read_exact(&mut file.unwrap(), &mut bytes).unwrap();
    let vmclock = Vmclock::parse(&bytes).unwrap();
    assert_eq!(
        (vmclock.time_s, vmclock.clock_status, vmclock.counter_id),
        (77, 2, 1)
    );
    assert!(vmclock.time_maxerror_ns >= 70_000);
    assert_eq!(
        vmclock.emit()[16..112],
        bytes[16..112],
        "all but the sequence"
    );
}

#[test]
fn many_readers_see_whole_segments_under_a_hasty_writer() {
    // The lines of the segments start at different points but give the same time. A mixture of two
    // segments would give a time that is far off.
    let (writer, reader) = in_nanoseconds();
    writer.publish(&segment(0, 0));
    let done = std::sync::atomic::AtomicBool::new(false);
    let relaxed = std::sync::atomic::Ordering::Relaxed;
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                let now = 900_000_000_000u64;
                while !done.load(relaxed) {
                    let reading = reader.read_with(|| now).unwrap();
                    let off = reading.estimate_ns - now as i64;
                    assert!(off.abs() < 10_000_000, "off by {off} ns");
                }
            });
        }
        // Under Miri, each seed gives another interleaving of the threads.
        let turns = if cfg!(miri) { 40 } else { 100_000 };
        for turn in 0..turns {
            let core_ns = (turn % 800) * 1_000_000_000;
            writer.publish(&segment(core_ns, core_ns));
        }
        done.store(true, relaxed);
    });
}
