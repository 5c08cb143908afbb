//! Domains: which counter a page is based on, and which time a program lives in.
//!
//! In a session, true time is the session's virtual time. The oscillator of a host is virtual too:
//! it stops while the session is paused, and runs at the session's rate. A line based on the
//! machine's counter is therefore wrong inside a session. A line based on a host's oscillator is
//! wrong outside of the session and on other hosts. Each page states its domain, each program
//! determines its own, and a page of another domain is refused.

use core::fmt;
#[cfg(not(miri))]
use core::mem::offset_of;
use core::sync::atomic::Ordering::{Acquire, Relaxed};
use core::sync::atomic::fence;

#[cfg(not(miri))]
use timeloom_abi::{ABI_VERSION, MAGIC, RELEASED};
use timeloom_abi::{ClockPage, PAGE_ADDRESS, PageTime};

use crate::shm::memory::machine;
use crate::shm::refusal::Refusal;
use crate::shm::shared_counter::EmulatedTsc;

/// Set of programs that share a counter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Domain {
    /// The programs outside of sessions on one machine, from one boot to the next.
    Machine {
        /// Hash of the machine's boot id.
        boot: u64,
    },
    /// The programs on one host of a session.
    Host {
        /// Random number of the session.
        session: u64,
        /// Number of the host in the session.
        host: u32,
    },
}

impl Domain {
    /// Returns the domain of this program. A session maps a clock page into each of its guests at a
    /// fixed address, so a program without that page is outside of sessions.
    ///
    /// # Errors
    /// Fails in a session of another version of Timeloom. Also fails if the system refuses a pipe,
    /// which is needed to determine the domain.
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

/// Clock page of the host on which this program is a guest.
#[derive(Clone, Copy)]
pub(crate) struct HostPage(&'static ClockPage<PageTime>);

impl fmt::Debug for HostPage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("HostPage")
    }
}

impl HostPage {
    /// Returns the host's clock page; `None` if this program does not run in a session.
    ///
    /// # Errors
    /// Fails as [`Domain::here`] does.
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
        if word(offset_of!(ClockPage<PageTime>, magic)) != MAGIC {
            return Ok(None);
        }
        let version = word(offset_of!(ClockPage<PageTime>, version));
        if version != ABI_VERSION {
            return Err(Refusal::Session(version));
        }
        // A program that was released from its session uses the machine's clocks again.
        if word(offset_of!(ClockPage<PageTime>, counter)) == RELEASED {
            return Ok(None);
        }
        // SAFETY: a clock page of this version is mapped there, for as long as the process has this
        // address space. On release another page replaces it in one step. Every field is an atomic.
        Ok(Some(Self(unsafe {
            &*(PAGE_ADDRESS as *const ClockPage<PageTime>)
        })))
    }

    #[cfg(miri)]
    pub(crate) fn here() -> Result<Option<Self>, Refusal> {
        let _ = PAGE_ADDRESS;
        Ok(None)
    }

    /// Returns the host's [`disruptions`](ClockPage::disruptions), loaded after the program's
    /// earlier reads.
    #[inline(always)]
    pub(crate) fn disruptions(self) -> u64 {
        fence(Acquire);
        self.0.disruptions().load(Relaxed)
    }

    /// Returns the emulated time-stamp counter of the session's programs; `None` if they read the
    /// machine's counter.
    pub(crate) fn emulated_tsc(self) -> Option<EmulatedTsc> {
        let per_ns_8_56 = self.0.tsc_per_ns_8_56.load(Relaxed);
        (per_ns_8_56 != 0).then(|| EmulatedTsc {
            tsc0: self.0.tsc0.load(Relaxed),
            per_ns_8_56,
        })
    }
}

/// Returns how often the rate of this guest's host began or ceased to differ from the rate of its
/// session. The number is odd while the rates differ. `None` outside of sessions.
///
/// # Errors
/// Fails as [`Domain::here`] does.
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
