//! Why a page is not read.

use core::fmt;

use crate::domain::Domain;

/// Why a page is refused: never a wrong time instead.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Refusal {
    /// Not as long as a page, or says so itself.
    Size {
        /// What it should be, in bytes.
        expected: u64,
        /// What it is, in bytes.
        found: u64,
    },
    /// Another kind of file.
    Magic(u32),
    /// Another version of the layout.
    Version(u32),
    /// The header or the copy in force is damaged.
    Sum,
    /// A counter that this build cannot read.
    Counter(u32),
    /// Written on another machine, or before this one was booted.
    Machine,
    /// A machine's timeline, and this program lives in a session's time.
    OutsideSession,
    /// Its counter is the crystal of a host of a session, and this program lives
    /// outside of sessions.
    InSession {
        /// Whose crystal it is.
        page: Domain,
    },
    /// Its counter is the crystal of a host, and this program lives on another one, or
    /// in another session.
    OnAnotherHost {
        /// Whose crystal it is.
        page: Domain,
        /// The number of the host on which the program lives, in its own session.
        here: u32,
    },
    /// The session in which this program lives is of another version of Timeloom:
    /// the version of its clock page.
    Session(u32),
    /// A successor of the writer uses the page for another timeline or counter:
    /// open it again.
    Successor,
    /// A coefficient that no honest writer gives; its name.
    Absurd(&'static str),
    /// The memory cannot be mapped; the error number.
    Map(i32),
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Size { expected, found } => {
                write!(f, "the page should have {expected} bytes and has {found}")
            }
            Self::Magic(found) => write!(f, "not a timeline's page (magic {found:#010x})"),
            Self::Version(found) => write!(f, "version {found} of the page is not known here"),
            Self::Sum => f.write_str("the page is damaged (its sum is wrong)"),
            Self::Counter(found) => write!(f, "counter {found} cannot be read here"),
            Self::Machine => f.write_str("the page belongs to another machine or boot"),
            Self::OutsideSession => f.write_str(
                "the timeline is the machine's, and this program lives in the virtual time of a session, where it would be false; run the timeline's daemon in the session too, on this host (docs/timeline.md, \"In virtual time\")",
            ),
            Self::InSession { page } => write!(
                f,
                "the timeline is in virtual time, by the crystal of {page}, and this program lives outside of it; run the program in that session, on that host"
            ),
            Self::OnAnotherHost { page, here } => write!(
                f,
                "the timeline is by the crystal of {page}, and this program lives on host {here} of its own session; run a daemon of the timeline on this host too, with that one as its peer"
            ),
            Self::Session(found) => write!(
                f,
                "this program lives in a session whose clock page has version {found}, which is not known here; use the library that belongs to the session's timeloom"
            ),
            Self::Successor => f.write_str("the page has another timeline or counter now"),
            Self::Absurd(what) => write!(f, "the page's {what} makes no sense"),
            Self::Map(number) => {
                write!(
                    f,
                    "cannot map the page: {}",
                    std::io::Error::from_raw_os_error(*number)
                )
            }
        }
    }
}

impl std::error::Error for Refusal {}

// A reading is given together with it, and what is larger is copied through memory.
const _: () = assert!(size_of::<Refusal>() <= 24);
