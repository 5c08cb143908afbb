//! Why a verb failed.

use core::fmt;

use timeloom_clock::quality::Status;
use timeloom_clock::timeline::Impossible;
use timeloom_publish::Refusal;
use timeloom_timeline_protocol::{BadName, ClientError};

/// Why a timeline cannot be opened.
#[derive(Debug)]
pub enum OpenError {
    /// That is no name.
    Name(BadName),
    /// The daemon did not hand it over.
    Daemon(ClientError),
    /// The page is refused.
    Page(Refusal),
}

/// Why there is no binding, or none with that requirement.
#[derive(Debug)]
pub enum BindError {
    /// No effort can meet it; what is possible.
    Impossible(Impossible),
    /// It makes no sense: a negative length, or steps of nothing.
    Senseless,
    /// The timeline was opened by its page alone.
    NoDaemon,
    /// The daemon did not do it.
    Daemon(ClientError),
}

/// Why a wait ended without its instant having come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WaitError {
    /// The timeline has no interval any more, or had none: nothing is certain.
    Void(Status),
    /// The page is refused.
    Page(Refusal),
    /// The period is not positive.
    Senseless,
}

/// Why a past reading of the counter is not converted.
#[derive(Debug)]
pub enum PastError {
    /// The timeline was opened by its page alone, which has no history.
    NoDaemon,
    /// The program lives in a virtual machine, whose counter the daemon does not know.
    Guest,
    /// The daemon did not do it: too old, in the future, or gone.
    Daemon(ClientError),
}

impl fmt::Display for OpenError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Name(bad) => bad.fmt(f),
            Self::Daemon(error) => error.fmt(f),
            Self::Page(refusal) => refusal.fmt(f),
        }
    }
}

impl fmt::Display for BindError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Impossible(impossible) => impossible.fmt(f),
            Self::Senseless => f.write_str(
                "a requirement has lengths that are not negative and steps of some length",
            ),
            Self::NoDaemon => f.write_str(NO_DAEMON),
            Self::Daemon(error) => error.fmt(f),
        }
    }
}

impl fmt::Display for WaitError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Void(status) => write!(f, "the timeline has no interval: {status}"),
            Self::Page(refusal) => refusal.fmt(f),
            Self::Senseless => f.write_str("a period lasts longer than nothing"),
        }
    }
}

impl fmt::Display for PastError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Guest => f.write_str(
                "a past reading is not converted in a virtual machine: the daemon does not know its counter",
            ),
            Self::NoDaemon => f.write_str(NO_DAEMON),
            Self::Daemon(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for OpenError {}
impl std::error::Error for BindError {}
impl std::error::Error for WaitError {}
impl std::error::Error for PastError {}

const NO_DAEMON: &str = "the timeline was opened by its page alone; this needs its daemon";
