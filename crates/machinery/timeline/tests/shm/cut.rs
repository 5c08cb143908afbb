//! Tests of pages that are truncated while they are read. A reader gets a refusal, and is never
//! killed by SIGBUS.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};

use crate::common::{ID, segment};
use rustix::fs::{MemfdFlags, SealFlags, fcntl_add_seals, memfd_create};
use timeloom_clock::quality::Status;
use timeloom_timeline::shm::{PAGE_SIZE, PageCounter, PageReader, PageWriter, Refusal};

/// Returns the path of a page for the test `name`.
fn page(name: &str) -> PathBuf {
    let directory = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("cut-{name}"));
    let _ = std::fs::remove_dir_all(&directory);
    std::fs::create_dir_all(&directory).unwrap();
    directory.join("cell.page")
}

#[test]
fn a_reader_of_a_file_that_is_cut_is_refused_and_goes_on_once_it_is_whole() {
    let path = page("refused");
    let writer = PageWriter::at_path(&path, ID, PageCounter::Monotonic, None).unwrap();
    writer.publish(&segment(0, 0));
    let reader = PageReader::open_path(&path).unwrap();
    let whole = std::fs::read(&path).unwrap();
    assert_ne!(
        reader.read_with(|| 0).unwrap().status,
        Status::NeverSynchronised
    );
    assert!(reader.alive_until() > 0);
    for length in [0, 1, 200, PAGE_SIZE as u64 - 1] {
        // Another user of the file truncates it. (Its writer does not publish meanwhile.)
        let file = File::options().write(true).open(&path).unwrap();
        file.set_len(length).unwrap();
        let (expected, found) = (PAGE_SIZE as u64, length);
        let cut = Refusal::Size { expected, found };
        assert_eq!(reader.read_ns().err(), Some(cut), "{length}");
        assert_eq!(reader.read().err(), Some(cut));
        assert_eq!(reader.read_event().err(), Some(cut));
        assert_eq!(reader.alive_until(), 0);
        assert_eq!(reader.tai_offset_s(), None);
        assert_eq!(PageReader::open_path(&path).err(), Some(cut));
        std::fs::write(&path, &whole).unwrap();
        reader.read().unwrap();
    }
}

/// Reads the page in several threads, while another thread truncates and restores it.
#[test]
fn no_reader_ends_while_a_page_is_cut_again_and_again() {
    let path = page("again");
    let writer = PageWriter::at_path(&path, ID, PageCounter::Monotonic, None).unwrap();
    writer.publish(&segment(0, 0));
    let whole = std::fs::read(&path).unwrap();
    let reader = PageReader::open_path(&path).unwrap();
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                while !done.load(Ordering::Relaxed) {
                    // Pages of zeros and partial pages are refused as invalid.
                    let _ = reader.read_ns();
                }
            });
        }
        for _ in 0..2_000 {
            let file = File::options().write(true).open(&path).unwrap();
            file.set_len(0).unwrap();
            std::fs::write(&path, &whole).unwrap();
        }
        done.store(true, Ordering::Relaxed);
    });
    reader.read().unwrap();
}

/// The memory that a daemon passes to programs cannot be truncated, so readers map it. Readers do
/// not map memory that can be truncated.
#[test]
fn sealed_memory_cannot_be_cut_and_other_memory_is_not_mapped() {
    let writer = PageWriter::in_memory(ID, PageCounter::Monotonic, None).unwrap();
    assert!(rustix::fs::ftruncate(writer.fd(), 0).is_err());
    let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
    let memory = File::from(memfd_create("cut", flags).unwrap());
    memory.set_len(PAGE_SIZE as u64).unwrap();
    let clock = timeloom_timeline::shm::GivenClock::open(&memory).err();
    assert_eq!(clock, Some(Refusal::Unsealed));
    fcntl_add_seals(&memory, SealFlags::SHRINK).unwrap();
    let clock = timeloom_timeline::shm::GivenClock::open(&memory).err();
    assert!(matches!(clock, Some(Refusal::Magic(_))), "{clock:?}");
}
