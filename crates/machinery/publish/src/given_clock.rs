//! The clock page of a session's host, as the guest of a virtual machine on it is given it.
//!
//! What a guest reads of its host's timelines is by the host's crystal. When the host is held
//! or slowed by itself, that is not what it was for the timelines' daemon, and its clock page
//! says so before anybody on it computes again. A guest that looks there is told in time; by
//! way of the relay, which is on the host too, it would be some milliseconds late.
//!
//! What it is not: a clock for the guest, whose counter is shifted by what it has to measure.

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

/// The page of the host on which this program is a guest, to be given on read-only; `None`
/// outside of sessions.
///
/// # Errors
/// When it is not known where this program lives, or without the right to open what is
/// mapped (`CAP_SYS_ADMIN` or `CAP_CHECKPOINT_RESTORE`).
pub fn clock_page_here() -> std::io::Result<Option<File>> {
    let refused = |refusal: Refusal| std::io::Error::other(refusal.to_string());
    if HostPage::here().map_err(refused)?.is_none() {
        return Ok(None);
    }
    let end = PAGE_ADDRESS + PAGE_SIZE as u64;
    File::open(format!("/proc/self/map_files/{PAGE_ADDRESS:x}-{end:x}")).map(Some)
}

/// A clock page that was given to a guest. A host is untrusted input for its guest: all that
/// is read of it is one word.
pub struct GivenClock(Mapping<ClockPage<Shown>>);

impl fmt::Debug for GivenClock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("GivenClock")
    }
}

impl GivenClock {
    /// Opens it behind a descriptor, such as that of a PCI device's memory.
    ///
    /// # Errors
    /// When it is none of this version.
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

    /// The host's [`disruptions`](ClockPage::disruptions), loaded after what was read before.
    #[inline(always)]
    pub(crate) fn disruptions(&self) -> u64 {
        fence(Acquire);
        self.0.get().disruptions().load(Relaxed)
    }
}
