//! Clock page of a session's host, passed to the guest of a virtual machine on that host.
//!
//! A guest reads its host's timelines with the host's oscillator as the counter. When the session
//! stops or slows that host alone, the oscillator differs from what the timelines' daemon assumed.
//! The host's clock page reports this before any program on the host computes again. A guest that
//! checks the page therefore learns of it in time. The relay could report it only some milliseconds
//! later, because it is stopped with its host.
//!
//! The page is not a clock for the guest, because the guest knows the offset of its own counter
//! only by measurement.

use core::fmt;
use core::sync::atomic::Ordering::{Acquire, Relaxed};
use core::sync::atomic::fence;
use std::fs::File;
use std::os::fd::AsFd;

use timeloom_abi::{ABI_VERSION, ClockPage, MAGIC, PAGE_ADDRESS, PageTime};

use crate::shm::PAGE_SIZE;
use crate::shm::domain::HostPage;
use crate::shm::memory::{Mapping, is_fixed, length_of};
use crate::shm::refusal::Refusal;

/// Returns the clock page of the host on which this program is a guest, as a read-only file to be
/// passed on; `None` outside of sessions.
///
/// # Errors
/// Fails if the domain of this program cannot be determined, or if the program may not open mapped
/// files (`CAP_SYS_ADMIN` or `CAP_CHECKPOINT_RESTORE`).
pub fn clock_page_here() -> std::io::Result<Option<File>> {
    let refused = |refusal: Refusal| std::io::Error::other(refusal.to_string());
    if HostPage::here().map_err(refused)?.is_none() {
        return Ok(None);
    }
    let end = PAGE_ADDRESS + PAGE_SIZE as u64;
    File::open(format!("/proc/self/map_files/{PAGE_ADDRESS:x}-{end:x}")).map(Some)
}

/// Clock page that was passed to a guest. The guest does not trust its host, so it reads only one
/// word of the page.
pub struct GivenClock(Mapping<ClockPage<PageTime>>);

impl fmt::Debug for GivenClock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("GivenClock")
    }
}

impl GivenClock {
    /// Opens the page by a descriptor, such as that of a PCI device's memory.
    ///
    /// # Errors
    /// Fails if the memory is not a clock page of this version.
    pub fn open(fd: impl AsFd) -> Result<Self, Refusal> {
        let refused = |error: rustix::io::Errno| Refusal::Map(error.raw_os_error());
        let (expected, found) = (PAGE_SIZE as u64, length_of(&fd).map_err(refused)?);
        if found != expected {
            return Err(Refusal::Size { expected, found });
        }
        if !is_fixed(&fd).map_err(refused)? {
            return Err(Refusal::Unsealed);
        }
        let memory = Mapping::<ClockPage<PageTime>>::new(&fd, false).map_err(refused)?;
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
