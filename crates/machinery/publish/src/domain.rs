//! Whose counter a page's line starts from, and in whose time a program lives.
//!
//! In a session true time is the session's. The crystal of a host is virtual there:
//! it stands while the session stands, and runs as slowly. So a line from the
//! machine's counter is false inside a session, and one from a host's crystal is
//! false outside of it and on other hosts. Each page names its domain, each program
//! finds out its own, and a page of another is refused.

use core::fmt;
#[cfg(not(miri))]
use core::mem::offset_of;
use core::sync::atomic::Ordering::{Acquire, Relaxed};
use core::sync::atomic::fence;

#[cfg(not(miri))]
use timeloom_page::{ABI_VERSION, MAGIC, RELEASED};
use timeloom_page::{ClockPage, PAGE_ADDRESS, Shown};

use crate::memory::machine;
use crate::refusal::Refusal;
use crate::shared_counter::EmulatedTsc;

/// A set of readers who share their counters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Domain {
    /// A machine, between two boots.
    Machine {
        /// Hash of the boot's id.
        boot: u64,
    },
    /// A host of a session.
    Host {
        /// The number that was drawn for the session.
        session: u64,
        /// The host's number in it.
        host: u32,
    },
}

impl Domain {
    /// Where this program lives: by the clock page that a session maps into each of
    /// its guests, at one address.
    ///
    /// # Errors
    /// In a session of another version of Timeloom, and when the system refuses a
    /// pipe, without which nothing is known.
    pub fn here() -> Result<Self, Refusal> {
        Ok(HostPage::here()?.map_or_else(
            || Self::Machine { boot: machine() },
            |page| Self::Host {
                session: page.0.session.load(Relaxed),
                host: page.0.host.load(Relaxed),
            },
        ))
    }
}

impl fmt::Display for Domain {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Machine { .. } => f.write_str("the machine"),
            Self::Host { session, host } => write!(f, "host {host} of session {session:016x}"),
        }
    }
}

/// The clock page of the host on which this program is a guest.
#[derive(Clone, Copy)]
pub(crate) struct HostPage(&'static ClockPage<Shown>);

impl fmt::Debug for HostPage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("HostPage")
    }
}

impl HostPage {
    /// The page, if this program lives in a session.
    ///
    /// # Errors
    /// As [`Domain::here`].
    #[cfg(not(miri))]
    pub(crate) fn here() -> Result<Option<Self>, Refusal> {
        let mut start = [0; 192];
        let refused = |error: std::io::Error| Refusal::Map(error.raw_os_error().unwrap_or(0));
        if !timeloom_sys::memory::copy_own(PAGE_ADDRESS, &mut start).map_err(refused)? {
            return Ok(None);
        }
        let word = |at: usize| {
            let bytes = start[at..at + 4].try_into().expect("four of them");
            u32::from_ne_bytes(bytes)
        };
        if word(offset_of!(ClockPage<Shown>, magic)) != MAGIC {
            return Ok(None);
        }
        let version = word(offset_of!(ClockPage<Shown>, version));
        if version != ABI_VERSION {
            return Err(Refusal::Session(version));
        }
        // Let go from its session, a program's clocks are the machine's again.
        if word(offset_of!(ClockPage<Shown>, counter)) == RELEASED {
            return Ok(None);
        }
        // SAFETY: a clock page of this version is mapped there, for as long as the
        // process has this memory; when it is let go another takes its place in one
        // step. Every field is an atomic.
        Ok(Some(Self(unsafe {
            &*(PAGE_ADDRESS as *const ClockPage<Shown>)
        })))
    }

    #[cfg(miri)]
    pub(crate) fn here() -> Result<Option<Self>, Refusal> {
        let _ = PAGE_ADDRESS;
        Ok(None)
    }

    /// The host's [`disruptions`](ClockPage::disruptions), loaded after what the
    /// program has read before.
    #[inline(always)]
    pub(crate) fn disruptions(self) -> u64 {
        fence(Acquire);
        self.0.disruptions().load(Relaxed)
    }

    /// The time-stamp counter that the session's programs see, where that is not the
    /// machine's.
    pub(crate) fn emulated_tsc(self) -> Option<EmulatedTsc> {
        let per_ns_8_56 = self.0.tsc_per_ns_8_56.load(Relaxed);
        (per_ns_8_56 != 0).then(|| EmulatedTsc {
            tsc0: self.0.tsc0.load(Relaxed),
            per_ns_8_56,
        })
    }
}

/// How often the host on which this program is a guest began or ceased to live at
/// another pace than its session; odd while it does. `None` outside of sessions.
///
/// # Errors
/// As [`Domain::here`].
pub fn host_disruptions() -> Result<Option<u64>, Refusal> {
    Ok(HostPage::here()?.map(HostPage::disruptions))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_test_lives_in_no_session() {
        assert_eq!(Domain::here(), Ok(Domain::Machine { boot: machine() }));
        assert_eq!(host_disruptions(), Ok(None));
    }
}
