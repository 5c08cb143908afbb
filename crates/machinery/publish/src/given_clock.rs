//! Clock page of a session's host, as passed to the guest of a virtual machine on it.
//!
//! A guest reads its host's timelines by the host's oscillator. When the host is held or slowed by
//! itself, that oscillator differs from what the timelines' daemon assumed, and the host's clock
//! page reports this before any program on it computes again. A guest that checks the page is
//! informed in time; by way of the relay, which is on the host too, it would be some milliseconds
//! late.
//!
//! The page is not a clock for the guest, which cannot know the offset of its own counter without
//! measuring it.

use core::fmt;
use core::sync::atomic::Ordering::{Acquire, Relaxed};
use core::sync::atomic::fence;
use std::fs::File;
use std::os::fd::AsFd;

use timeloom_page::{ABI_VERSION, ClockPage, MAGIC, PAGE_ADDRESS, Shown};

use crate::PAGE_SIZE;
use crate::domain::HostPage;
use crate::memory::{Mapping, is_fixed, length_of};
use crate::refusal::Refusal;

/// Returns the page of the host on which this program is a guest, to be passed on read-only; `None`
/// outside of sessions.
///
/// # Errors
/// Fails if the domain of this program cannot be determined, or without the right to open mapped
/// files (`CAP_SYS_ADMIN` or `CAP_CHECKPOINT_RESTORE`).
pub fn clock_page_here() -> std::io::Result<Option<File>> {
    let refused = |refusal: Refusal| std::io::Error::other(refusal.to_string());
    if HostPage::here().map_err(refused)?.is_none() {
        return Ok(None);
    }
    let end = PAGE_ADDRESS + PAGE_SIZE as u64;
    File::open(format!("/proc/self/map_files/{PAGE_ADDRESS:x}-{end:x}")).map(Some)
}

/// Clock page that was passed to a guest. A host is untrusted input for its guest: only one word of
/// the page is read.
pub struct GivenClock(Mapping<ClockPage<Shown>>);

impl fmt::Debug for GivenClock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("GivenClock")
    }
}

impl GivenClock {
    /// Opens the page by a descriptor, such as that of a PCI device's memory.
    ///
    /// # Errors
    /// Fails if it is not a clock page of this version.
    pub fn open(fd: impl AsFd) -> Result<Self, Refusal> {
        let refused = |error: rustix::io::Errno| Refusal::Map(error.raw_os_error());
        let (expected, found) = (PAGE_SIZE as u64, length_of(&fd).map_err(refused)?);
        if found != expected {
            return Err(Refusal::Size { expected, found });
        }
        if !is_fixed(&fd).map_err(refused)? {
            return Err(Refusal::Unsealed);
        }
        let memory = Mapping::<ClockPage<Shown>>::new(&fd, false).map_err(refused)?;
        let page = memory.get();
        let magic = page.magic.load(Acquire);
        if magic != MAGIC {
            return Err(Refusal::Magic(magic));
        }
        let version = page.version.load(Relaxed);
        if version != ABI_VERSION {
            return Err(Refusal::Session(version));
        }
        Ok(Self(memory))
    }

    /// Returns the host's [`disruptions`](ClockPage::disruptions), loaded after earlier reads.
    #[inline(always)]
    pub(crate) fn disruptions(&self) -> u64 {
        fence(Acquire);
        self.0.get().disruptions().load(Relaxed)
    }
}
