//! Reasons why a request to a session failed.

use std::error::Error;

use timeloom_time::Duration;

use crate::error::GuestError;

/// Reason why a session could not be paused, resumed, or made to skip.
#[derive(Debug, thiserror::Error)]
pub enum HoldError {
    /// Clock or processes could not be changed.
    #[error(transparent)]
    Session(#[from] GuestError),
    /// It is not paused by hand: its time moves by grants.
    #[error("it was not paused by hand; its time moves by grants only, as by `timeloom step`")]
    NotByHand,
    /// Reason of a substitute for the session.
    #[error(transparent)]
    Other(Box<dyn Error + Send + Sync>),
}

/// Reason why a session, or some of its hosts, did not run until an instant and stop there.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    /// The span is not more than zero.
    #[error("a span to run must be more than zero")]
    NoSpan,
    /// The span leads beyond the range of a clock.
    #[error("the span is too long")]
    SpanTooLong,
    /// The session is stopped, so that no time passes for its hosts.
    #[error("the session stands, and so do its hosts; `timeloom resume` it first, or step it")]
    SessionStands,
    /// The session was paused on the way.
    #[error("the session was paused at {at}, before that instant")]
    Paused {
        /// Time of its clock since the session began.
        at: Duration,
    },
    /// A host was paused on the way.
    #[error("host {host} was paused before that instant")]
    HostPaused {
        /// Name of the host.
        host: String,
    },
    /// The session ended on the way.
    #[error("the session ended before that instant")]
    Ended,
    /// The session could not be resumed, or stopped at the instant.
    #[error(transparent)]
    Hold(#[from] HoldError),
    /// The instant is past, or another one is awaited already.
    #[error(transparent)]
    Session(#[from] GuestError),
}

/// Reason why a client cannot become the granter of a session.
#[derive(Debug, thiserror::Error)]
pub(crate) enum SeatError {
    #[error("the session has ended")]
    Ended,
    #[error("{by} grants this session its time; there can be one granter only")]
    Taken { by: String },
    /// The connection could not be kept.
    #[error(transparent)]
    Connection(std::io::Error),
}

/// Reason why a request was refused.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Refusal {
    #[error("the session has ended")]
    Ended,
    #[error("not a request: {0}")]
    Malformed(serde_json::Error),
    /// A session that is to be stepped is running.
    #[error("the session is running; `timeloom pause` it first, or `timeloom run-until +SPAN`")]
    Running,
    /// A host that is to be stepped is running.
    #[error(
        "host {host} is running; `timeloom pause --host {host}` it first, \
         or `timeloom run-until --host {host} +SPAN`"
    )]
    HostRunning { host: String },
    #[error(
        "this session runs by itself, and nobody need grant it time; \
         begin it with `timeloom exec --stepped`, \
         or say mode = \"stepped\" under [time] in its scenario"
    )]
    NotStepped,
    #[error("`by` names the requester of another request, and not of one with a name already")]
    ByTwice,
    #[error("`enter` is the first request of a connection, and its last")]
    EnterAlone,
    #[error(
        "the pauses of this session are agreed on with other machines, \
         so its clock cannot be changed alone; `timeloom hold` or `pause` stops all"
    )]
    Agreed,
    /// A hold was requested on a connection that has another purpose.
    #[error("a hold lasts as long as its connection; ask for it on one of its own")]
    HoldBeside,
    #[error(transparent)]
    Hold(#[from] HoldError),
    #[error(transparent)]
    Run(#[from] RunError),
    #[error(transparent)]
    Seat(SeatError),
    #[error(transparent)]
    Session(#[from] GuestError),
}

impl HoldError {
    /// Wraps a reason that only the session's substitute knows.
    pub fn other(error: impl Into<Box<dyn Error + Send + Sync>>) -> Self {
        Self::Other(error.into())
    }
}
