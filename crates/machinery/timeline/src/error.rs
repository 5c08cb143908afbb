//! Errors of this crate's operations on timelines.

use crate::protocol::{BadName, ClientError};
use crate::shm::Refusal;
use timeloom_clock::quality::Status;
use timeloom_clock::timeline::UnmetRequirement;

/// Reason why a timeline cannot be opened.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// The text is not a valid name.
    #[error("{0}")]
    Name(BadName),
    /// The daemon did not pass the page.
    #[error("{0}")]
    Daemon(ClientError),
    /// The page is refused.
    #[error("{0}")]
    Page(Refusal),
}

/// Reason why there is no binding with the given requirement.
#[derive(Debug, thiserror::Error)]
pub enum BindError {
    /// No polling rate can meet the requirement; the value states the best possible accuracy.
    #[error("{0}")]
    Impossible(UnmetRequirement),
    /// The requirement is invalid: a negative length, or a resolution of zero.
    #[error(
        "the durations of a requirement must not be negative, and its resolution must be \
        positive"
    )]
    Senseless,
    /// The timeline was opened by its page alone, so the program has no connection to a daemon.
    #[error("{}", NO_DAEMON)]
    NoDaemon,
    /// The daemon did not fulfil the request.
    #[error("{0}")]
    Daemon(ClientError),
}

/// Reason why a wait ended before its instant.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum WaitError {
    /// The timeline has no interval, so that no instant is certain.
    #[error("the timeline has no interval: {0}")]
    Void(Status),
    /// The page is refused.
    #[error("{0}")]
    Page(Refusal),
    /// The period is not positive.
    #[error("a period must be positive")]
    Senseless,
}

/// Reason why a past reading of the counter cannot be converted.
#[derive(Debug, thiserror::Error)]
pub enum PastError {
    /// The timeline was opened by its page alone, which has no history.
    #[error("{}", NO_DAEMON)]
    NoDaemon,
    /// The program runs in a virtual machine. The daemon does not know the counter of that machine.
    #[error(
        "a past reading is not converted in a virtual machine: the daemon does not know its counter"
    )]
    Guest,
    /// The daemon did not convert the reading: it is too old or in the future, or the daemon is
    /// gone.
    #[error("{0}")]
    Daemon(ClientError),
}
const NO_DAEMON: &str = "the timeline was opened by its page alone; this needs its daemon";
