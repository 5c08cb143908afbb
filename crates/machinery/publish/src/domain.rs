//! Domain of a page's counter, and of a program's time.
//!
//! In a session true time is the session's. The oscillator of a host is virtual there: it stops
//! while the session is paused, and has the session's rate. So a line from the machine's counter is
//! wrong inside a session, and one from a host's oscillator is wrong outside of it and on other
//! hosts. Each page names its domain, each program determines its own, and a page of another domain
//! is refused.

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

/// Set of readers that share their counters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Domain {
    /// A machine, between two boots.
    Machine {
        /// Hash of the boot's id.
        boot: u64,
    },
    /// A host of a session.
    Host {
        /// Random number of the session.
        session: u64,
        /// Number of the host in the session.
        host: u32,
    },
}

impl Domain {
    /// Returns the domain of this program, by the clock page that a session maps into each of its
    /// guests, at one address.
    ///
    /// # Errors
    /// Fails in a session of another version of Timeloom, or if the system refuses a pipe, without
    /// which the domain cannot be determined.
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
pub(crate) struct HostPage(&'static ClockPage<Shown>);

impl fmt::Debug for HostPage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("HostPage")
    }
}

impl HostPage {
    /// Returns the page, if this program runs in a session.
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
        if word(offset_of!(ClockPage<Shown>, magic)) != MAGIC {
            return Ok(None);
        }
        let version = word(offset_of!(ClockPage<Shown>, version));
        if version != ABI_VERSION {
            return Err(Refusal::Session(version));
        }
        // After release from its session, a program uses the machine's clocks again.
        if word(offset_of!(ClockPage<Shown>, counter)) == RELEASED {
            return Ok(None);
        }
        // SAFETY: a clock page of this version is mapped there, for as long as the process has this
        // memory; on release another page replaces it in one step. Every field is an atomic.
        Ok(Some(Self(unsafe {
            &*(PAGE_ADDRESS as *const ClockPage<Shown>)
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

    /// Returns the time-stamp counter that the session's programs see, if it is not the machine's.
    pub(crate) fn emulated_tsc(self) -> Option<EmulatedTsc> {
        let per_ns_8_56 = self.0.tsc_per_ns_8_56.load(Relaxed);
        (per_ns_8_56 != 0).then(|| EmulatedTsc {
            tsc0: self.0.tsc0.load(Relaxed),
            per_ns_8_56,
        })
    }
}

/// Returns the number of times that the rate of this guest's host began or ceased to differ from
/// its session's; odd while it differs. `None` outside of sessions.
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
