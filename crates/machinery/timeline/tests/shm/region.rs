//! Tests of regions: a host's timelines as the guest of a virtual machine reads them.

use std::io::{Seek, Write};
use std::os::fd::{AsFd, AsRawFd};

use proptest::prelude::*;
use timeloom_clock::quality::Status;
use timeloom_time::{Instant, Rate};
use timeloom_timeline::shm::{
    Bounds, CoreScale, CounterRelation, PAGE_SIZE, PageCounter, PageReader, PageWriter, Refusal,
    Region, RegionEntry, RegionReader, RegionWriter, RelationWriter, now_ticks,
};

use crate::common::{ID, segment};

/// Number of ticks by which the guest's counter is behind the host's.
const BEHIND: u64 = 123_456_789_012;

struct Machine {
    page: PageWriter,
    source: PageReader,
    region: RegionWriter,
}

/// Creates a host with one timeline that is good from now on. One tick of its counter is one
/// nanosecond.
fn machine() -> Machine {
    machine_with(false)
}

fn machine_with(has_clock: bool) -> Machine {
    let scale = CoreScale::new(Instant::ZERO, Instant::ZERO, Rate::ONE);
    let page = PageWriter::in_memory(ID, PageCounter::Tsc, Some(scale)).unwrap();
    page.publish(&segment(page.ticks() as i64, 1_000_000));
    let source = PageReader::open(page.fd()).unwrap();
    let entry = RegionEntry {
        timeline: ID,
        name: "plant".to_owned(),
    };
    let mut region = RegionWriter::new(&[entry], &scale.into(), has_clock).unwrap();
    region.slots()[0].copy(&source, u64::MAX >> 1).unwrap();
    Machine {
        page,
        source,
        region,
    }
}

fn relation(region: &Region, width: i64) -> CounterRelation {
    CounterRelation {
        low: BEHIND as i64 - width / 2,
        high: BEHIND as i64 + width - width / 2,
        measured_at: now_ticks(PageCounter::Tsc) - BEHIND,
        growth_0_64: 0,
        generation: region.generation(),
    }
}

/// Clock page of a session's host, as far as a guest reads it.
struct Clock(std::fs::File);

impl Clock {
    fn new() -> Self {
        use std::mem::offset_of;
        use timeloom_abi::{ABI_VERSION, ClockPage, MAGIC, PageTime};
        let file = tempfile();
        file.set_len(PAGE_SIZE as u64).unwrap();
        seal(&file);
        let clock = Self(file);
        clock.write(offset_of!(ClockPage<PageTime>, magic), &MAGIC.to_ne_bytes());
        clock.write(
            offset_of!(ClockPage<PageTime>, version),
            &ABI_VERSION.to_ne_bytes(),
        );
        clock
    }

    fn write(&self, at: usize, bytes: &[u8]) {
        use std::os::unix::fs::FileExt;
        self.0.write_all_at(bytes, at as u64).unwrap();
    }

    /// Sets the number of times that the session stopped or slowed the host alone. `vmclock_abi`
    /// has its marker at the same offset.
    fn disrupt(&self, disruptions: u64) {
        self.write(16, &disruptions.to_ne_bytes());
    }
}

#[test]
fn a_guest_sees_at_once_that_its_host_alone_is_held_and_until_its_daemon_has_heard() {
    let mut host = machine_with(true);
    let (region, clock) = (Region::open(host.region.fd()).unwrap(), Clock::new());
    let measured = RelationWriter::new(region.incarnation()).unwrap();
    let without = RegionReader::open(host.region.fd(), 0, measured.fd(), None).err();
    assert_eq!(without, Some(Refusal::Absurd("clock page")));
    let none = Some(host.region.fd());
    assert!(RegionReader::open(host.region.fd(), 0, measured.fd(), none).is_err());
    measured.publish(Some(&relation(&region, 10)));
    let given = Some(clock.0.as_fd());
    let guest = RegionReader::open(host.region.fd(), 0, measured.fd(), given).unwrap();
    let own = || now_ticks(PageCounter::Tsc) - BEHIND;
    let status = || guest.read_with(own).unwrap().status;
    // The status is read twice: from the page, and from the reader's composed line.
    assert_eq!([status(), status()], [Status::Ok; 2]);
    // The host is stopped and released. For the guest nothing else has changed.
    for disruptions in [1, 2] {
        clock.disrupt(disruptions);
        assert_eq!(status(), Status::Disrupted, "{disruptions}");
    }
    // Publications count again once the daemon has received an answer of a source after the
    // disruption.
    let mut heard = segment(host.page.ticks() as i64, 1_000_000);
    heard.origin.marker = 2;
    host.page.publish(&heard);
    assert_eq!(status(), Status::Disrupted, "it was not told yet");
    host.region.slots()[0]
        .copy(&host.source, u64::MAX >> 1)
        .unwrap();
    assert_eq!([status(), status()], [Status::Ok; 2]);
    clock.disrupt(3);
    assert_eq!(status(), Status::Disrupted);
}

#[test]
fn a_guest_reads_the_hosts_interval_widened_by_its_own_uncertainty() {
    let host = machine();
    let region = Region::open(host.region.fd()).unwrap();
    assert_eq!(region.timelines()[0].name, "plant");
    let measured = RelationWriter::new(region.incarnation()).unwrap();
    let guest = RegionReader::open(host.region.fd(), 0, measured.fd(), None).unwrap();
    let own = now_ticks(PageCounter::Tsc) - BEHIND;
    let read = || guest.read_with(|| own).unwrap();
    assert_eq!(
        read().status,
        Status::Disrupted,
        "its counter says nothing yet"
    );
    for width in [0, 1, 1_000, 1_000_000] {
        measured.publish(Some(&relation(&region, width)));
        let native = host.source.read_with(|| own + BEHIND).unwrap();
        let inside = read();
        assert_eq!(inside.status, Status::Ok);
        let ends = |reading: &timeloom_timeline::shm::Reading| {
            (
                reading.estimate_ns - reading.below_ns as i64,
                reading.estimate_ns + reading.above_ns as i64,
            )
        };
        let (native, inside) = (ends(&native), ends(&inside));
        assert!(
            inside.0 <= native.0 && inside.1 >= native.1,
            "{native:?} in {inside:?}"
        );
        let wider = (inside.1 - inside.0) - (native.1 - native.0);
        // The interval is wider by the whole width of the relation, a thousandth for the rate, and
        // rounding.
        assert!(
            (width..=width + width / 500 + 12).contains(&wider),
            "{width}: {wider}"
        );
    }
    // A page that is disrupted on the host is disrupted for the guest; so is the timeline after the
    // counter was moved.
    let mut host = host;
    host.page.disrupt();
    host.region.slots()[0]
        .copy(&host.source, u64::MAX >> 1)
        .unwrap();
    assert_eq!(read().status, Status::Disrupted);
    host.page.publish(&segment(host.page.ticks() as i64, 5));
    host.region.slots()[0]
        .copy(&host.source, u64::MAX >> 1)
        .unwrap();
    let soon = host.page.ticks() - BEHIND;
    assert_eq!(guest.read_with(|| soon).unwrap().status, Status::Ok);
    host.region.displace();
    assert_eq!(guest.read_with(|| soon).unwrap().status, Status::Disrupted);
    measured.publish(Some(&relation(&region, 10)));
    assert_eq!(guest.read_with(|| soon).unwrap().status, Status::Ok);
    // The relay has ended: the interval remains and grows, and the status states the reason.
    host.region.slots()[0].end(soon + BEHIND - 10);
    let orphaned = guest.read_with(|| soon).unwrap();
    assert_eq!(
        (orphaned.status, orphaned.bounded),
        (Status::DaemonDead, true)
    );
}

#[test]
fn a_guest_that_sees_the_hosts_stamps_knows_where_its_counter_is() {
    let host = machine();
    let region = Region::open(host.region.fd()).unwrap();
    let own = || now_ticks(PageCounter::Tsc) - BEHIND;
    let stop = std::sync::atomic::AtomicBool::new(false);
    let mut bounds = Bounds::default();
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !stop.load(std::sync::atomic::Ordering::Relaxed) {
                host.region.stamp();
                std::thread::yield_now();
            }
        });
        // The loop runs until both threads have run at the same time, even on a busy machine.
        while bounds.relation(own(), 0, 0, 0).is_none() {
            let before = own();
            let stamp = region.stamp();
            bounds.saw(before, stamp, own());
        }
        stop.store(true, std::sync::atomic::Ordering::Relaxed);
    });
    let found = bounds.relation(own(), 0, 0, 0).unwrap();
    assert!(
        (found.low..=found.high).contains(&(BEHIND as i64)),
        "{found:?}"
    );
}

#[test]
fn a_region_is_sealed_and_as_long_as_a_power_of_two() {
    let scale = CoreScale::new(Instant::ZERO, Instant::ZERO, Rate::ONE);
    let entry = |number: u128| RegionEntry {
        timeline: timeloom_clock::quality::TimelineId(number),
        name: format!("t{number}"),
    };
    for (timelines, pages) in [(1, 2), (2, 4), (3, 4), (4, 8), (15, 16)] {
        let entries: Vec<_> = (0..timelines).map(entry).collect();
        let region = RegionWriter::new(&entries, &scale.into(), false).unwrap();
        assert_eq!(region.size(), pages * PAGE_SIZE);
        let opened = Region::open(region.fd()).unwrap();
        assert_eq!(opened.timelines().len(), timelines as usize);
    }
    let entries: Vec<_> = (0..16).map(entry).collect();
    assert!(RegionWriter::new(&entries, &scale.into(), false).is_err());
    let region = RegionWriter::new(&entries[..1], &scale.into(), false).unwrap();
    let again = format!("/proc/self/fd/{}", region.fd().as_raw_fd());
    if let Ok(file) = std::fs::File::options().read(true).write(true).open(again) {
        use std::os::unix::fs::FileExt;
        assert!(file.write_at(&[0; 8], 0).is_err());
        assert!(file.set_len(0).is_err());
    }
}

/// Returns the bytes of a valid region.
fn good() -> Vec<u8> {
    let host = machine();
    let file = host.region.fd().try_clone_to_owned().unwrap();
    let mut bytes = vec![0; host.region.size()];
    std::os::unix::fs::FileExt::read_exact_at(&std::fs::File::from(file), &mut bytes, 0).unwrap();
    bytes
}

fn opened(bytes: &[u8]) -> Result<RegionReader, Refusal> {
    let mut file = tempfile();
    file.write_all(bytes).unwrap();
    file.rewind().unwrap();
    let unsealed = Region::open(&file).err();
    let expected = [
        Refusal::Unsealed,
        Refusal::Size {
            expected: 8192,
            found: 0,
        },
    ];
    assert!(
        unsealed.is_some_and(|it| expected.contains(&it) || bytes.len() < 8192),
        "{unsealed:?}"
    );
    seal(&file);
    let region = Region::open(&file)?;
    let measured = RelationWriter::new(region.incarnation()).unwrap();
    measured.publish(Some(&relation(&region, 10)));
    let reader = RegionReader::open(&file, 0, measured.fd(), None)?;
    let _ = reader.read()?;
    Ok(reader)
}

fn tempfile() -> std::fs::File {
    let flags = rustix::fs::MemfdFlags::CLOEXEC | rustix::fs::MemfdFlags::ALLOW_SEALING;
    rustix::fs::memfd_create("region", flags).unwrap().into()
}

/// Seals the file, because memory that can be truncated is refused.
fn seal(file: &std::fs::File) {
    rustix::fs::fcntl_add_seals(file, rustix::fs::SealFlags::SHRINK).unwrap();
}

#[test]
fn regions_of_a_hostile_host_are_refused_with_the_reason() {
    let region = good();
    assert!(opened(&region).is_ok());
    let bent = |at: usize, value: u8| {
        let mut bent = region.clone();
        bent[at] = value;
        opened(&bent).err()
    };
    assert!(matches!(bent(0, 0), Some(Refusal::Magic(_))));
    assert_eq!(bent(4, 9), Some(Refusal::Version(9)));
    for at in [8, 12, 16, 24, 28, 32, 40, 48, 130, 150] {
        assert_eq!(bent(at, !region[at]), Some(Refusal::Sum), "byte {at}");
    }
    // The timeline's own page has a header and then a line.
    assert!(matches!(bent(4096 + 128, 0), Some(Refusal::Magic(_))));
    assert_eq!(bent(4096 + 144, !region[4096 + 144]), Some(Refusal::Sum));
    for length in [0, 4096, 8191] {
        assert!(matches!(
            opened(&region[..length]).err(),
            Some(Refusal::Size { .. })
        ));
    }
    // A page with a correct sum that belongs to another timeline, and a relation that belongs to
    // another region.
    let other = RelationWriter::new(77).unwrap();
    let host = machine();
    let refused = RegionReader::open(host.region.fd(), 0, other.fd(), None).err();
    assert_eq!(refused, Some(Refusal::Successor));
    let measured = RelationWriter::new(Region::open(host.region.fd()).unwrap().incarnation());
    let refused = RegionReader::open(host.region.fd(), 1, measured.unwrap().fd(), None).err();
    assert_eq!(refused, Some(Refusal::Absurd("index")));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(if cfg!(miri) { 4 } else { 400 }))]
    /// For any content, the result is a refusal or a reading, and never a panic.
    #[test]
    fn any_change_of_a_region_is_borne(
        changes in proptest::collection::vec((0..8192usize, any::<u8>()), 0..12),
        headers in any::<[u32; 4]>(),
        mend in any::<bool>(),
    ) {
        let mut bytes = good();
        for (at, value) in changes {
            bytes[at] = value;
        }
        for (at, word) in headers.iter().enumerate().skip(2) {
            bytes[4 * at..4 * at + 4].copy_from_slice(&word.to_le_bytes());
        }
        if mend {
            timeloom_timeline::shm::fuzzing::mend_region(&mut bytes);
        }
        let _ = opened(&bytes);
    }
}
