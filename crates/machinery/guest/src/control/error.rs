//! Why what was asked of a session was not done.

use std::error::Error;
use std::fmt;

use timeloom_time::Duration;

use crate::error::GuestError;

/// Why something could not be paused, let go on, or made to skip.
#[derive(Debug, thiserror::Error)]
pub enum HoldError {
    /// Clock or processes could not be changed.
    #[error("{0}")]
    Session(GuestError),
    /// Nobody at the keyboard holds it: its time moves by grants.
    #[error("it was not paused by hand; its time moves by grants only, as by `timeloom step`")]
    NotByHand,
    /// What stands for the session has a reason of its own.
    #[error("{0}")]
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
    #[error("{0}")]
    Hold(HoldError),
    /// The instant is past, or another is awaited already.
    #[error("{0}")]
    Session(GuestError),
}

/// Why somebody cannot be the one who grants a session its time.
#[derive(Debug)]
pub(crate) enum SeatError {
    /// The session has ended.
    Ended,
    /// Somebody else does.
    Taken { by: String },
    /// Its connection could not be kept.
    Connection(std::io::Error),
}

/// Why a request was refused.
#[derive(Debug)]
pub(crate) enum Refusal {
    /// The session has ended.
    Ended,
    /// What came is no request.
    Malformed(serde_json::Error),
    /// A session that is to be stepped runs.
    Running,
    /// A host that is to be stepped runs.
    HostRunning {
        host: String,
    },
    /// The session runs by itself, and nobody need grant it time.
    NotStepped,
    /// A command comes in as the first request of its connection.
    EnterAlone,
    /// Its pauses are agreed on with other machines.
    Agreed,
    /// A hold was asked for on a connection that serves something else.
    HoldBeside,
    Hold(HoldError),
    Run(RunError),
    Seat(SeatError),
    Session(GuestError),
}

impl HoldError {
    /// A reason that only what stands for the session knows.
    pub fn other(error: impl Into<Box<dyn Error + Send + Sync>>) -> Self {
        Self::Other(error.into())
    }
}

impl fmt::Display for SeatError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Ended => f.write_str("the session has ended"),
            Self::Taken { by } => write!(
                f,
                "{by} grants this session its time; there can be one granter only"
            ),
            Self::Connection(error) => error.fmt(f),
        }
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Ended => f.write_str("the session has ended"),
            Self::Malformed(error) => write!(f, "not a request: {error}"),
            Self::Running => f.write_str(
                "the session is running; `timeloom pause` it first, or `timeloom run-until +SPAN`",
            ),
            Self::HostRunning { host } => write!(
                f,
                "host {host} is running; `timeloom pause --host {host}` it first, \
                 or `timeloom run-until --host {host} +SPAN`"
            ),
            Self::NotStepped => f.write_str(
                "this session runs by itself, and nobody need grant it time; \
                 begin it with `timeloom exec --stepped`, \
                 or say mode = \"stepped\" under [time] in its scenario",
            ),
            Self::EnterAlone => {
                f.write_str("`enter` is the first request of a connection, and its last")
            }
            Self::Agreed => f.write_str(
                "the pauses of this session are agreed on with other machines, \
                 so its clock cannot be changed alone; `timeloom hold` or `pause` stops all",
            ),
            Self::HoldBeside => {
                f.write_str("a hold lasts as long as its connection; ask for it on one of its own")
            }
            Self::Hold(error) => error.fmt(f),
            Self::Run(error) => error.fmt(f),
            Self::Seat(error) => error.fmt(f),
            Self::Session(error) => error.fmt(f),
        }
    }
}
impl From<GuestError> for HoldError {
    fn from(error: GuestError) -> Self {
        Self::Session(error)
    }
}

impl From<HoldError> for RunError {
    fn from(error: HoldError) -> Self {
        Self::Hold(error)
    }
}

impl From<GuestError> for RunError {
    fn from(error: GuestError) -> Self {
        Self::Session(error)
    }
}

impl From<HoldError> for Refusal {
    fn from(error: HoldError) -> Self {
        Self::Hold(error)
    }
}

impl From<RunError> for Refusal {
    fn from(error: RunError) -> Self {
        Self::Run(error)
    }
}

impl From<GuestError> for Refusal {
    fn from(error: GuestError) -> Self {
        Self::Session(error)
    }
}
