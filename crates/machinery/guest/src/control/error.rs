//! Reasons why a request to a session failed.

use std::error::Error;

use timeloom_time::Duration;

use crate::error::GuestError;

/// Reason why a session could not be paused, resumed, or switched to skipping.
#[derive(Debug, thiserror::Error)]
pub enum HoldError {
    /// The clock or the processes could not be changed.
    #[error(transparent)]
    Session(#[from] GuestError),
    /// The session's time moves by grants, so it was not paused by the user.
    #[error("it was not paused by hand; its time moves by grants only, as by `timeloom step`")]
    NotByHand,
    /// Reason that only the owner of the session knows.
    #[error(transparent)]
    Other(Box<dyn Error + Send + Sync>),
}

/// Reason why a session, or some of its hosts, did not run until a given instant.
#[derive(Debug, thiserror::Error)]
pub enum RunUntilError {
    /// The span is zero or negative.
    #[error("a span to run must be positive")]
    NoSpan,
    /// The span ends beyond the range of a clock.
    #[error("the span ends beyond the range of a clock; give a shorter one")]
    SpanTooLong,
    /// The session is stopped, so no time passes for its hosts.
    #[error("the session is paused, and so are its hosts; `timeloom resume` it first, or step it")]
    SessionStands,
    /// The session was paused before the instant.
    #[error("the session was paused at {at}, before that instant")]
    Paused {
        /// Virtual time of the pause, since the session began.
        at: Duration,
    },
    /// A host was paused before its instant.
    #[error("host {host} was paused before that instant")]
    HostPaused {
        /// Name of the host.
        host: String,
    },
    /// The session ended before the instant.
    #[error("the session ended before that instant")]
    Ended,
    /// The session could not be resumed, or could not be stopped at the instant.
    #[error(transparent)]
    Hold(#[from] HoldError),
    /// The instant is in the past, or a run to another instant is in progress.
    #[error(transparent)]
    Session(#[from] GuestError),
}

/// Reason why a client cannot become the granter of a session.
#[derive(Debug, thiserror::Error)]
pub(crate) enum SeatError {
    #[error("the session has ended")]
    Ended,
    #[error("the client has disconnected")]
    Left,
    #[error("{by} grants this session its time already; a session has one granter only")]
    Taken { by: String },
    /// The connection of the client could not be kept.
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
    /// The session is running, so it cannot be stepped.
    #[error("the session is running; `timeloom pause` it first, or `timeloom run-until +SPAN`")]
    Running,
    /// A host is running, so it cannot be stepped.
    #[error(
        "host {host} is running; `timeloom pause --host {host}` it first, \
         or `timeloom run-until --host {host} +SPAN`"
    )]
    HostRunning { host: String },
    #[error(
        "the time of this session does not advance by grants; begin it with `timeloom exec \
         --stepped`, or set mode = \"stepped\" under [time] in its scenario"
    )]
    NotStepped,
    /// The request of a named requester has no effect that could be recorded.
    #[error(
        "`by` names the requester of a change of the session, such as `pause`; leave it out of a \
         request that changes nothing, lasts as long as its connection, or names its requester \
         itself"
    )]
    NoEffect,
    #[error("`enter` must be the first request of a connection, and its last")]
    EnterAlone,
    #[error(
        "the pauses of this session are agreed on with other machines, so a single host cannot be \
         paused, stepped or dilated; without `--host` the command acts on all machines"
    )]
    Agreed,
    /// The client requested a hold on a connection that already has another purpose.
    #[error("a hold lasts as long as its connection; request it on a separate connection")]
    HoldBeside,
    #[error(transparent)]
    Hold(#[from] HoldError),
    #[error(transparent)]
    Run(#[from] RunUntilError),
    #[error(transparent)]
    Seat(SeatError),
    #[error(transparent)]
    Session(#[from] GuestError),
}

impl HoldError {
    /// Wraps a reason that only the owner of the session knows.
    pub fn other(error: impl Into<Box<dyn Error + Send + Sync>>) -> Self {
        Self::Other(error.into())
    }
}
