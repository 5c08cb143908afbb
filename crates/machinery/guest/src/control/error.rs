//! Why what was asked of a session was not done.

use std::error::Error;

use timeloom_time::Duration;

use crate::error::GuestError;

/// Why something could not be paused, let go on, or made to skip.
#[derive(Debug, thiserror::Error)]
pub enum HoldError {
    /// Clock or processes could not be changed.
    #[error(transparent)]
    Session(#[from] GuestError),
    /// Nobody at the keyboard holds it: its time moves by grants.
    #[error("it was not paused by hand; its time moves by grants only, as by `timeloom step`")]
    NotByHand,
    /// What stands for the session has a reason of its own.
    #[error(transparent)]
    Other(Box<dyn Error + Send + Sync>),
}

/// Why a session, or some of its hosts, did not run until an instant and stop there.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    /// The span to run is not more than zero.
    #[error("a span to run must be more than zero")]
    NoSpan,
    /// The span to run leads beyond what a clock can show.
    #[error("the span is too long")]
    SpanTooLong,
    /// The session stands, so that no time passes for its hosts.
    #[error("the session stands, and so do its hosts; `timeloom resume` it first, or step it")]
    SessionStands,
    /// It was paused on the way.
    #[error("the session was paused at {at}, before that instant")]
    Paused {
        /// What its clock showed, since the session began.
        at: Duration,
    },
    /// A host was paused on the way.
    #[error("host {host} was paused before that instant")]
    HostPaused {
        /// Its name.
        host: String,
    },
    /// The session ended on the way.
    #[error("the session ended before that instant")]
    Ended,
    /// It could not be let go on, or stopped there.
    #[error(transparent)]
    Hold(#[from] HoldError),
    /// The instant is past, or another is awaited already.
    #[error(transparent)]
    Session(#[from] GuestError),
}

/// Why somebody cannot be the one who grants a session its time.
#[derive(Debug, thiserror::Error)]
pub(crate) enum SeatError {
    #[error("the session has ended")]
    Ended,
    #[error("{by} grants this session its time; there can be one granter only")]
    Taken { by: String },
    /// Its connection could not be kept.
    #[error(transparent)]
    Connection(std::io::Error),
}

/// Why a request was refused.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Refusal {
    #[error("the session has ended")]
    Ended,
    #[error("not a request: {0}")]
    Malformed(serde_json::Error),
    /// A session that is to be stepped runs.
    #[error("the session is running; `timeloom pause` it first, or `timeloom run-until +SPAN`")]
    Running,
    /// A host that is to be stepped runs.
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
    #[error("`enter` is the first request of a connection, and its last")]
    EnterAlone,
    #[error(
        "the pauses of this session are agreed on with other machines, \
         so its clock cannot be changed alone; `timeloom hold` or `pause` stops all"
    )]
    Agreed,
    /// A hold was asked for on a connection that serves something else.
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
    /// A reason that only what stands for the session knows.
    pub fn other(error: impl Into<Box<dyn Error + Send + Sync>>) -> Self {
        Self::Other(error.into())
    }
}
