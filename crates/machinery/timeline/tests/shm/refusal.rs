//! Tests of invalid pages, which readers refuse with a reason.

use std::io::{Seek, Write};
use std::os::fd::AsRawFd;

use crate::common::{ID, segment};
use proptest::prelude::*;
use timeloom_timeline::shm::PageCounter;
use timeloom_timeline::shm::{
    PAGE_SIZE, PageReader, PageSegment, PageWriter, Refusal, WORDS, WriterError,
};

fn directory(name: &str) -> std::path::PathBuf {
    let path = std::path::Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    let _ = std::fs::remove_dir_all(&path);
    std::fs::create_dir_all(&path).unwrap();
    path
}

/// Returns the bytes of a valid page.
fn good(directory: &std::path::Path) -> Vec<u8> {
    let path = directory.join("good");
    let writer = PageWriter::at_path(&path, ID, PageCounter::Monotonic, None).unwrap();
    writer.publish(&segment(0, 0));
    std::fs::read(&path).unwrap()
}

fn opened(directory: &std::path::Path, bytes: &[u8]) -> Result<PageReader, Refusal> {
    let path = directory.join("bent");
    std::fs::write(&path, bytes).unwrap();
    PageReader::open_path(&path)
}

#[test]
fn each_damage_has_its_reason() {
    let directory = directory("each_damage");
    let page = good(&directory);
    assert!(opened(&directory, &page).is_ok());
    let refusal = |at: usize, value: u8| {
        let mut bent = page.clone();
        bent[at] = value;
        opened(&directory, &bent).err()
    };
    assert!(matches!(refusal(128, 0), Some(Refusal::Magic(_))));
    assert_eq!(refusal(132, 9), Some(Refusal::Version(9)));
    assert!(matches!(
        refusal(137, 0x20),
        Some(Refusal::Size { found: 0x2000, .. })
    ));
    assert_eq!(
        refusal(140, 7),
        Some(Refusal::Sum),
        "a counter that the sum does not cover"
    );
    assert_eq!(refusal(144, 7), Some(Refusal::Sum));
    // Both copies start after the first cache line of the latch. The test damages the copy in
    // force.
    let in_force = if page[192] & 1 == 0 {
        256
    } else {
        256 + 8 * WORDS
    };
    assert_eq!(refusal(in_force + 16, 1), Some(Refusal::Sum));
    for length in [0, 100, PAGE_SIZE - 1, PAGE_SIZE + 1] {
        let mut cut = page.clone();
        cut.resize(length, 0);
        let found = length as u64;
        let expected = Some(Refusal::Size {
            expected: 4096,
            found,
        });
        assert_eq!(opened(&directory, &cut).err(), expected);
    }
    assert!(matches!(
        opened(&directory, &[0; PAGE_SIZE]).err(),
        Some(Refusal::Magic(0))
    ));
    let missing = PageReader::open_path(&directory.join("missing"))
        .err()
        .unwrap();
    assert!(missing.to_string().contains("No such file"), "{missing}");
}

#[test]
fn absurd_coefficients_under_a_right_sum_are_refused() {
    let scale = timeloom_timeline::shm::CoreScale::new(
        timeloom_time::Instant::ZERO,
        timeloom_time::Instant::ZERO,
        timeloom_time::Rate::ONE,
    );
    let good = PageSegment::new(&segment(0, 0), &scale);
    assert_eq!(PageSegment::from_words(&good.to_words()), Ok(good));
    for (what, bad) in [
        (
            "rate",
            PageSegment {
                rate_8_56: 0,
                ..good
            },
        ),
        (
            "rate",
            PageSegment {
                rate_8_56: u64::MAX,
                ..good
            },
        ),
        (
            "bound",
            PageSegment {
                below_ns: u64::MAX,
                ..good
            },
        ),
        (
            "growth",
            PageSegment {
                above_growth_0_64: u64::MAX / 100,
                ..good
            },
        ),
        (
            "counter",
            PageSegment {
                counter0: u64::MAX,
                ..good
            },
        ),
        (
            "estimate",
            PageSegment {
                estimate0_ns: i64::MIN,
                ..good
            },
        ),
        ("status", PageSegment { status: 6, ..good }),
    ] {
        let refused = PageSegment::from_words(&bad.to_words());
        assert_eq!(refused, Err(Refusal::Absurd(what)), "{bad:?}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 500, failure_persistence: None, ..ProptestConfig::default() })]
    #[test]
    fn a_hostile_page_makes_no_panic_and_no_inverted_interval(
        words in prop::array::uniform16(any::<u64>()), now in any::<u64>(), tame in any::<u16>(),
    ) {
        // Some words are as an honest writer writes them, so that not all pages are refused.
        let scale = timeloom_timeline::shm::CoreScale::new(
            timeloom_time::Instant::ZERO, timeloom_time::Instant::ZERO, timeloom_time::Rate::ONE);
        let honest = PageSegment::new(&segment(1 << 40, 1 << 50), &scale).to_words();
        let mut mixed: [u64; WORDS] =
            std::array::from_fn(|i| if tame >> i & 1 == 1 { honest[i] } else { words[i] });
        mixed[11] %= 7;
        // The sum is correct, because its algorithm is not a secret.
        let resealed = PageSegment {
            counter0: mixed[0], estimate0_ns: mixed[1] as i64, rate_8_56: mixed[2], below_ns: mixed[3],
            above_ns: mixed[4], below_growth_0_64: mixed[5], above_growth_0_64: mixed[6],
            fresh_until: mixed[7], void_after: mixed[8], backwards: mixed[9], marker: mixed[10],
            status: mixed[11] as u8,
        }.to_words();
        let writer = PageWriter::in_memory(crate::common::ID, PageCounter::Monotonic, None).unwrap();
        let reader = PageReader::open(writer.fd()).unwrap();
        writer.publish_words(resealed);
        let reading = reader.read_with(|| now).ok();
        if let Some(interval) = reading.and_then(|reading| reading.stamp(crate::common::ID).interval()) {
            prop_assert!(interval.earliest() <= interval.latest());
        }
    }
}

#[test]
fn a_sealed_page_cannot_be_written_or_cut_through_any_descriptor() {
    let writer = PageWriter::in_memory(ID, PageCounter::Monotonic, None).unwrap();
    writer.publish(&segment(0, 0));
    let path = format!("/proc/self/fd/{}", writer.fd().as_raw_fd());
    // Writing fails even for root, and through a descriptor that was opened again.
    let mut again = std::fs::File::options()
        .read(true)
        .write(true)
        .open(&path)
        .unwrap();
    again.seek(std::io::SeekFrom::Start(200)).unwrap();
    assert!(again.write_all(&[1; 8]).is_err(), "written");
    assert!(again.set_len(0).is_err(), "cut");
    assert!(
        std::fs::File::options()
            .write(true)
            .truncate(true)
            .open(&path)
            .is_err(),
        "cut at open"
    );
    writer.publish(&segment(5, 5)); // The writer continues.
    assert!(PageReader::open(&again).is_ok());
}

#[test]
fn two_daemons_for_one_timeline_and_a_successor() {
    let path = directory("two_daemons").join("page");
    let first = PageWriter::at_path(&path, ID, PageCounter::Monotonic, None).unwrap();
    let second = PageWriter::at_path(&path, ID, PageCounter::Monotonic, None);
    assert!(matches!(second, Err(WriterError::Taken)));
    let reader = PageReader::open_path(&path).unwrap();
    first.publish(&segment(0, 0));
    assert!(reader.read_with(|| 5).unwrap().bounded);
    drop(first);
    // The page outlives its writer, and readers continue with the successor's publications.
    assert!(reader.read_with(|| 5).unwrap().bounded);
    let successor = PageWriter::at_path(&path, ID, PageCounter::Monotonic, None).unwrap();
    assert!(
        !reader.read_with(|| 5).unwrap().bounded,
        "nothing is known at first"
    );
    successor.publish(&segment(0, 1_000));
    assert_eq!(reader.read_with(|| 0).unwrap().estimate_ns, 1_000);
    drop(successor);
    let other = timeloom_clock::quality::TimelineId(1);
    let _other = PageWriter::at_path(&path, other, PageCounter::Monotonic, None).unwrap();
    assert_eq!(reader.read().unwrap_err(), Refusal::Successor);
}
