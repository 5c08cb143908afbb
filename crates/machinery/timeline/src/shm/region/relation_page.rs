//! Page in which a guest publishes the relation of its counter to the host's.

use core::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::fs::{MemfdFlags, SealFlags};

use super::layout::{REGION_VERSION, RELATION_MAGIC, RELATION_WORDS, RelationPage};
use crate::shm::memory::{Mapping, is_fixed, length_of, machine};
use crate::shm::{CounterRelation, PAGE_SIZE, Refusal};

/// Owner of the page. The page is a sealed memfd, whose descriptor is passed to the programs that
/// read the region's timelines.
#[derive(Debug)]
pub struct RelationWriter {
    memory: Mapping<RelationPage>,
    fd: OwnedFd,
}

impl RelationWriter {
    /// Creates the page for a region with this `incarnation`. It contains no relation yet.
    ///
    /// # Errors
    /// Fails if a system call fails.
    pub fn new(incarnation: u64) -> std::io::Result<Self> {
        let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
        let fd = rustix::fs::memfd_create("timeloom-relation", flags)?;
        rustix::fs::ftruncate(&fd, PAGE_SIZE as u64)?;
        let memory = Mapping::<RelationPage>::new(&fd, true)?;
        let seals = SealFlags::FUTURE_WRITE | SealFlags::SHRINK | SealFlags::GROW | SealFlags::SEAL;
        rustix::fs::fcntl_add_seals(&fd, seals)?;
        let page = memory.get();
        page.owner.store(machine(), Relaxed);
        page.region.store(incarnation, Relaxed);
        page.version.store(REGION_VERSION, Relaxed);
        page.latch.publish(words_of(None));
        page.magic.store(RELATION_MAGIC, Release);
        Ok(Self { memory, fd })
    }

    /// Publishes the present relation; `None` if it is unknown.
    pub fn publish(&self, relation: Option<&CounterRelation>) {
        self.memory.get().latch.publish(words_of(relation));
    }

    /// Returns the descriptor of the page, to be passed to readers.
    pub fn fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

/// Page of a relation, as mapped by a reader.
#[derive(Debug)]
pub(super) struct RelationReader(Mapping<RelationPage>);

impl RelationReader {
    pub(super) fn open(fd: impl AsFd, incarnation: u64) -> Result<Self, Refusal> {
        let refused = |error: rustix::io::Errno| Refusal::Map(error.raw_os_error());
        let found = length_of(&fd).map_err(refused)?;
        let expected = PAGE_SIZE as u64;
        if found != expected {
            return Err(Refusal::Size { expected, found });
        }
        if !is_fixed(&fd).map_err(refused)? {
            return Err(Refusal::Unsealed);
        }
        let memory = Mapping::<RelationPage>::new(&fd, false).map_err(refused)?;
        let page = memory.get();
        let magic = page.magic.load(Acquire);
        if magic != RELATION_MAGIC {
            return Err(Refusal::Magic(magic));
        }
        let version = page.version.load(Relaxed);
        if version != REGION_VERSION {
            return Err(Refusal::Version(version));
        }
        if page.owner.load(Relaxed) != machine() {
            return Err(Refusal::Machine);
        }
        if page.region.load(Relaxed) != incarnation {
            return Err(Refusal::Successor);
        }
        Ok(Self(memory))
    }

    /// Returns the sequence of the publication in force.
    #[inline(always)]
    pub(super) fn sequence(&self) -> u32 {
        self.0.get().latch.sequence()
    }

    /// Returns the sequence of the publication in force and its relation; `None` if no relation is
    /// known.
    pub(super) fn load(&self) -> Option<(u32, CounterRelation)> {
        self.0.get().latch.read(|words, sequence| {
            let word = |index: usize| words[index].load(Relaxed);
            let relation = CounterRelation {
                low: word(0) as i64,
                high: word(1) as i64,
                measured_at: word(2),
                growth_0_64: word(3),
                generation: word(4),
            };
            (word(KNOWN) == 1 && relation.is_sound()).then_some((sequence, relation))
        })
    }
}

/// Index of the word that is 1 if a relation is known.
const KNOWN: usize = 5;

fn words_of(relation: Option<&CounterRelation>) -> [u64; RELATION_WORDS] {
    let mut words = [0; RELATION_WORDS];
    if let Some(relation) = relation {
        words[..=KNOWN].copy_from_slice(&[
            relation.low as u64,
            relation.high as u64,
            relation.measured_at,
            relation.growth_0_64,
            relation.generation,
            1,
        ]);
    }
    words
}
