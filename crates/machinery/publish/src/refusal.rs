//! Why a page is not read.

use core::fmt;

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
