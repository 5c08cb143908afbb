//! Reasons why a page cannot be read.

use crate::shm::domain::Domain;

/// Reason why a page is refused. A reader refuses a page when reading it could give a wrong time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Refusal {
    /// The file is shorter than a page, or the page states another size.
    #[error("the page should have {expected} bytes and has {found}")]
    Size {
        /// Expected size, in bytes.
        expected: u64,
        /// Actual size, in bytes.
        found: u64,
    },
    /// The file is not a page of this kind: its field `magic` has this value.
    #[error("not a timeline's page (magic {0:#010x})")]
    Magic(u32),
    /// The page has this version of the layout, which this program cannot read.
    #[error("version {0} of the page is not known here")]
    Version(u32),
    /// The header or the copy in force is damaged.
    #[error("the page is damaged (its sum is wrong)")]
    Sum,
    /// The page is based on the counter with this number, which this build cannot read.
    #[error("counter {0} cannot be read here")]
    Counter(u32),
    /// The page was written on another machine, or during an earlier boot of this machine.
    #[error("the page belongs to another machine or boot")]
    Machine,
    /// The page is based on the machine's counter, and this program runs in the virtual time of a
    /// session.
    #[error(
        "the timeline is the machine's, and this program lives in the virtual time of a session, \
         where it would be false; run the timeline's daemon in the session too, on this host \
         (docs/timeline.md, \"In virtual time\")"
    )]
    OutsideSession,
    /// The page is based on the oscillator of a host of a session, and this program runs outside of
    /// sessions.
    #[error(
        "the timeline is in virtual time, by the oscillator of {page}, and this program lives \
         outside of it; run the program in that session, on that host"
    )]
    InSession {
        /// Domain of that oscillator.
        page: Domain,
    },
    /// The page is based on the oscillator of a host, and this program runs on another host or in
    /// another session.
    #[error(
        "the timeline is by the oscillator of {page}, and this program lives on host {here} of \
         its own session; run a daemon of the timeline on this host too, with that one as its \
         peer"
    )]
    OnAnotherHost {
        /// Domain of that oscillator.
        page: Domain,
        /// Number of the host on which this program runs, in its own session.
        here: u32,
    },
    /// The session of this program has a clock page of this version, which this program cannot
    /// read.
    #[error(
        "this program lives in a session whose clock page has version {0}, which is not known \
         here; use the library that belongs to the session's timeloom"
    )]
    Session(u32),
    /// A new writer uses the page for another timeline or counter. The reader must open the page
    /// again.
    #[error("the page has another timeline or counter now")]
    Successor,
    /// The value with this name is one that no honest writer produces.
    #[error("the page has an invalid {0}")]
    Absurd(&'static str),
    /// The memory can be truncated, which would kill a reader with SIGBUS.
    #[error(
        "the memory can be truncated, which would end its readers; seal it (F_SEAL_SHRINK), or \
         use a device's"
    )]
    Unsealed,
    /// The memory cannot be mapped; contains the error number.
    #[error("cannot map the page: {}", std::io::Error::from_raw_os_error(*.0))]
    Map(i32),
}

// The result of every reading contains a `Refusal`. A larger type would be returned through memory.
const _: () = assert!(size_of::<Refusal>() <= 24);
