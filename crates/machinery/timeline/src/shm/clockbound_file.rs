//! Segment file in ClockBound's format.

use core::sync::atomic::AtomicU64;
use core::sync::atomic::Ordering::{Relaxed, Release};
use core::sync::atomic::fence;
use std::fs::File;
use std::path::Path;

use crate::shm::foreign::clockbound::{AnySegment, SIZE_V3, next_generation};
use crate::shm::memory::Mapping;

/// File that programs written for ClockBound read unchanged (`/var/run/clockbound/shm0` for version
/// 2, `…/shm1` for version 3). Only one writer may publish at a time.
#[derive(Debug)]
pub struct ClockBoundFile {
    memory: Mapping<Words>,
}

/// Page that holds the segment. The file contains only the first bytes of the page.
#[repr(C, align(4096))]
#[derive(Debug)]
struct Words([AtomicU64; 512]);

impl ClockBoundFile {
    /// Creates a new file and renames it to `path` when it is complete. An old file there is not
    /// truncated, because that would kill its readers.
    ///
    /// # Errors
    /// Fails if a system call fails.
    pub fn create(path: &Path, first: impl Into<AnySegment>) -> std::io::Result<Self> {
        let first = first.into();
        let fresh = path.with_extension("new");
        let file = File::options()
            .read(true)
            .write(true)
            .create(true)
            .truncate(true)
            .open(&fresh)?;
        file.set_len(first.size() as u64)?;
        let made = Self {
            memory: Mapping::new(&file, true)?,
        };
        made.publish(first);
        std::fs::rename(&fresh, path)?;
        Ok(made)
    }

    /// Replaces the segment, also while programs read it, by one of the same version. The segment's
    /// own `generation` is ignored and replaced.
    pub fn publish(&self, segment: impl Into<AnySegment>) {
        let segment = segment.into();
        let words = &self.memory.get().0;
        // Bytes 14 and 15 of the segment are the generation.
        let now = words[1].load(Relaxed).to_ne_bytes();
        let generation = u16::from_ne_bytes([now[6], now[7]]);
        let word = |bytes: &[u8; SIZE_V3], index: usize| {
            let mut word = [0; 8];
            word.copy_from_slice(&bytes[8 * index..8 * index + 8]);
            u64::from_ne_bytes(word)
        };
        let odd = segment.emit_as(generation | 1);
        let even = segment.emit_as(next_generation(generation));
        words[1].store(word(&odd, 1), Relaxed);
        // Readers check the generation, read the fields, and check the generation again. No field
        // may become visible before the odd generation does.
        fence(Release);
        for index in (0..segment.size() / 8).filter(|index| *index != 1) {
            words[index].store(word(&even, index), Relaxed);
        }
        words[1].store(word(&even, 1), Release);
    }
}
