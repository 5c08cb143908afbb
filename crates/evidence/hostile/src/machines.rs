//! Untrusted input of virtual machines: the region that a guest reads from its host, and the bytes
//! between the two.

use std::fs::File;
use std::os::unix::fs::FileExt;

use rustix::fs::{MemfdFlags, SealFlags, fcntl_add_seals, memfd_create};
use timeloom_timeline::shm::fuzzing::mend_region;
use timeloom_timeline::shm::{
    CounterRelation, MOST_TIMELINES, PAGE_SIZE, Refusal, Region, RegionReader, RelationWriter,
};

use crate::split;

/// Tests the region of memory that a host gives to its guest, as it is and with corrected
/// checksums. Whatever it contains, the guest must get a reading or an error, and no reading may be
/// more precise than the guest's knowledge of its counter permits.
///
/// Input: 8 bytes for the guest's counter; for the relation between the counters, 8 bytes each for
/// lower end, width, time of measurement and growth; then the region.
pub(crate) fn region(input: &[u8]) {
    let (head, bytes) = split::<40>(input);
    let [own, low, width, measured_at, growth_0_64] = core::array::from_fn(|index| {
        u64::from_le_bytes(head[8 * index..][..8].try_into().expect("eight"))
    });
    let relation = |generation| CounterRelation {
        low: low as i64,
        high: (low as i64).saturating_add_unsigned(width),
        measured_at,
        growth_0_64,
        generation,
    };
    let _ = read(bytes, own, &relation);
    if bytes.len() >= PAGE_SIZE {
        let mut sound = bytes.to_vec();
        mend_region(&mut sound);
        let _ = read(&sound, own, &relation);
    }
}

fn read(bytes: &[u8], own: u64, relation: &dyn Fn(u64) -> CounterRelation) -> Result<(), Refusal> {
    let file = memory(bytes);
    let region = Region::open(&file)?;
    assert!(region.timelines().len() <= MOST_TIMELINES.min(bytes.len() / PAGE_SIZE - 1));
    for entry in region.timelines() {
        assert!(!entry.name.is_empty() && !entry.name.contains('\0'));
    }
    let relation = relation(region.generation());
    let known = RelationWriter::new(region.incarnation()).expect("memory");
    for index in 0..=region.timelines().len() {
        let opened = RegionReader::open(&file, index, known.fd(), None);
        if index == region.timelines().len() {
            assert!(opened.is_err(), "there is no timeline {index}");
            continue;
        }
        let Ok(reader) = opened else { continue };
        assert_eq!(reader.timeline(), region.timelines()[index].timeline);
        known.publish(None);
        let unmeasured = reader.read_with(|| own);
        assert!(!unmeasured.is_ok_and(|reading| reading.bounded), "{own}");
        known.publish(Some(&relation));
        let reading = reader.read_with(|| own);
        let Some((latest, width)) = reader.host_ticks(own) else {
            assert!(!reading.is_ok_and(|reading| reading.bounded));
            continue;
        };
        // Both ends of the relation are within the limits that the reader permits.
        for end in [relation.low, relation.high] {
            let earlier = latest.wrapping_sub(own.wrapping_add(end as u64));
            assert!(earlier <= width, "{relation:?} at {own}: {latest} {width}");
        }
    }
    // The region is not accepted as a page with a relation.
    assert!(RegionReader::open(&file, 0, &file, None).is_err());
    Ok(())
}

/// Returns a memory file with exactly these bytes. A read beyond its last page raises SIGBUS.
fn memory(bytes: &[u8]) -> File {
    let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
    let file = File::from(memfd_create("timeloom-hostile", flags).expect("memory"));
    file.write_all_at(bytes, 0).expect("memory can be written");
    // Readers refuse memory whose size can be reduced.
    fcntl_add_seals(&file, SealFlags::SHRINK).expect("it is ours");
    file
}

/// Tests the byte stream of the port between a guest and its host.
///
/// Input: one byte for the size of the pieces minus one; then the stream.
pub(crate) fn frames(input: &[u8]) {
    if let Some((piece, stream)) = input.split_first() {
        timeloom_timelined::vm::fuzzing::stream(stream, usize::from(*piece) + 1);
    }
}

/// Tests messages of an emulator's monitor, which are lines of JSON.
pub(crate) fn monitor(said: &[u8]) {
    timeloom_timelined::vm::fuzzing::monitor(said);
}
