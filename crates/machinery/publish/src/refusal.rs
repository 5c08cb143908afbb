//! Reasons why a page is not read.

use crate::domain::Domain;

/// Reason why a page is refused. A page is refused rather than read as a wrong time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Refusal {
    /// The file is not as long as a page, or states another size.
    #[error("the page should have {expected} bytes and has {found}")]
    Size {
        /// Expected size, in bytes.
        expected: u64,
        /// Actual size, in bytes.
        found: u64,
    },
    /// The file is of another kind.
    #[error("not a timeline's page (magic {0:#010x})")]
    Magic(u32),
    /// The layout has another version.
    #[error("version {0} of the page is not known here")]
    Version(u32),
    /// The header or the copy in force is damaged.
    #[error("the page is damaged (its sum is wrong)")]
    Sum,
    /// This build cannot read the counter.
    #[error("counter {0} cannot be read here")]
    Counter(u32),
    /// The page was written on another machine, or before this one was booted.
    #[error("the page belongs to another machine or boot")]
    Machine,
    /// The timeline is a machine's, and this program runs in a session's time.
    #[error(
        "the timeline is the machine's, and this program lives in the virtual time of a session, \
         where it would be false; run the timeline's daemon in the session too, on this host \
         (docs/timeline.md, \"In virtual time\")"
    )]
    OutsideSession,
    /// The counter is the oscillator of a host of a session, and this program runs outside of
    /// sessions.
    #[error(
        "the timeline is in virtual time, by the crystal of {page}, and this program lives outside \
         of it; run the program in that session, on that host"
    )]
    InSession {
        /// Domain of the oscillator.
        page: Domain,
    },
    /// The counter is the oscillator of a host, and this program runs on another one, or in another
    /// session.
    #[error(
        "the timeline is by the crystal of {page}, and this program lives on host {here} of its \
         own session; run a daemon of the timeline on this host too, with that one as its peer"
    )]
    OnAnotherHost {
        /// Domain of the oscillator.
        page: Domain,
        /// Number of the host on which the program runs, in its own session.
        here: u32,
    },
    /// The session of this program is of another version of Timeloom: the version of its clock
    /// page.
    #[error(
        "this program lives in a session whose clock page has version {0}, which is not known \
         here; use the library that belongs to the session's timeloom"
    )]
    Session(u32),
    /// A successor of the writer uses the page for another timeline or counter: open it again.
    #[error("the page has another timeline or counter now")]
    Successor,
    /// A coefficient has a value that no honest writer gives; its name.
    #[error("the page's {0} makes no sense")]
    Absurd(&'static str),
    /// The memory can be truncated, which would end a reader by SIGBUS.
    #[error(
        "the memory can be cut, which would end its readers; it has to be sealed (F_SEAL_SHRINK) \
         or a device's"
    )]
    Unsealed,
    /// The memory cannot be mapped; the error number.
    #[error("cannot map the page: {}", std::io::Error::from_raw_os_error(*.0))]
    Map(i32),
}

// A result of a reading includes it, and a larger one would be copied through memory.
const _: () = assert!(size_of::<Refusal>() <= 24);
