//! Why a verb failed.

use timeloom_clock::quality::Status;
use timeloom_clock::timeline::Impossible;
use timeloom_publish::Refusal;
use timeloom_timeline_protocol::{BadName, ClientError};

/// Why a timeline cannot be opened.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// That is no name.
    #[error("{0}")]
    Name(BadName),
    /// The daemon did not hand it over.
    #[error("{0}")]
    Daemon(ClientError),
    /// The page is refused.
    #[error("{0}")]
    Page(Refusal),
}

/// Why there is no binding, or none with that requirement.
#[derive(Debug, thiserror::Error)]
pub enum BindError {
    /// No effort can meet it; what is possible.
    #[error("{0}")]
    Impossible(Impossible),
    /// It makes no sense: a negative length, or steps of nothing.
    #[error("a requirement has lengths that are not negative and steps of some length")]
    Senseless,
    /// The timeline was opened by its page alone.
    #[error("{}", NO_DAEMON)]
    NoDaemon,
    /// The daemon did not do it.
    #[error("{0}")]
    Daemon(ClientError),
}

/// Why a wait ended without its instant having come.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum WaitError {
    /// The timeline has no interval any more, or had none: nothing is certain.
    #[error("the timeline has no interval: {0}")]
    Void(Status),
    /// The page is refused.
    #[error("{0}")]
    Page(Refusal),
    /// The period is not positive.
    #[error("a period lasts longer than nothing")]
    Senseless,
}

/// Why a past reading of the counter is not converted.
#[derive(Debug, thiserror::Error)]
pub enum PastError {
    /// The timeline was opened by its page alone, which has no history.
    #[error("{}", NO_DAEMON)]
    NoDaemon,
    /// The program lives in a virtual machine, whose counter the daemon does not know.
    #[error(
        "a past reading is not converted in a virtual machine: the daemon does not know its counter"
    )]
    Guest,
    /// The daemon did not do it: too old, in the future, or gone.
    #[error("{0}")]
    Daemon(ClientError),
}
const NO_DAEMON: &str = "the timeline was opened by its page alone; this needs its daemon";
