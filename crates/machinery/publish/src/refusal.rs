//! Why a page is not read.

use crate::domain::Domain;

/// Why a page is refused: never a wrong time instead.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Refusal {
    /// Not as long as a page, or says so itself.
    #[error("the page should have {expected} bytes and has {found}")]
    Size {
        /// What it should be, in bytes.
        expected: u64,
        /// What it is, in bytes.
        found: u64,
    },
    /// Another kind of file.
    #[error("not a timeline's page (magic {0:#010x})")]
    Magic(u32),
    /// Another version of the layout.
    #[error("version {0} of the page is not known here")]
    Version(u32),
    /// The header or the copy in force is damaged.
    #[error("the page is damaged (its sum is wrong)")]
    Sum,
    /// A counter that this build cannot read.
    #[error("counter {0} cannot be read here")]
    Counter(u32),
    /// Written on another machine, or before this one was booted.
    #[error("the page belongs to another machine or boot")]
    Machine,
    /// A machine's timeline, and this program lives in a session's time.
    #[error(
        "the timeline is the machine's, and this program lives in the virtual time of a session, \
         where it would be false; run the timeline's daemon in the session too, on this host \
         (docs/timeline.md, \"In virtual time\")"
    )]
    OutsideSession,
    /// Its counter is the crystal of a host of a session, and this program lives
    /// outside of sessions.
    #[error(
        "the timeline is in virtual time, by the crystal of {page}, and this program lives outside \
         of it; run the program in that session, on that host"
    )]
    InSession {
        /// Whose crystal it is.
        page: Domain,
    },
    /// Its counter is the crystal of a host, and this program lives on another one, or
    /// in another session.
    #[error(
        "the timeline is by the crystal of {page}, and this program lives on host {here} of its \
         own session; run a daemon of the timeline on this host too, with that one as its peer"
    )]
    OnAnotherHost {
        /// Whose crystal it is.
        page: Domain,
        /// The number of the host on which the program lives, in its own session.
        here: u32,
    },
    /// The session in which this program lives is of another version of Timeloom:
    /// the version of its clock page.
    #[error(
        "this program lives in a session whose clock page has version {0}, which is not known \
         here; use the library that belongs to the session's timeloom"
    )]
    Session(u32),
    /// A successor of the writer uses the page for another timeline or counter:
    /// open it again.
    #[error("the page has another timeline or counter now")]
    Successor,
    /// A coefficient that no honest writer gives; its name.
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

// A reading is given together with it, and what is larger is copied through memory.
const _: () = assert!(size_of::<Refusal>() <= 24);
