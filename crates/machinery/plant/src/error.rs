//! Faults of plants, each with its name.

use std::fmt;
use std::process::ExitStatus;

use timeloom_time::{Duration, Instant, Virtual};

/// Operation of the plant protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Op {
    /// Starts the plant and requests its description.
    Init,
    /// Advances the plant to a virtual instant.
    Advance,
    /// Reads signals.
    Read,
    /// Writes signals.
    Write,
    /// Requests that the plant finish and exit.
    Stop,
    /// No operation: no request was pending.
    Idle,
}

impl Op {
    /// Returns the value of the `op` member of a request.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Init => "init",
            Self::Advance => "advance",
            Self::Read => "read",
            Self::Write => "write",
            Self::Stop => "stop",
            Self::Idle => "idle",
        }
    }
}

impl fmt::Display for Op {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// Fault of a plant. After any fault but [`PlantFault::Refused`], the plant's process has been
/// killed and reaped, and every later request returns the same fault.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum PlantFault {
    /// The process could not be started.
    #[error("could not be started: {reason}")]
    Start {
        /// Reason given by the operating system.
        reason: String,
    },
    /// The process ended by itself.
    #[error("died {} ({status})", when(during))]
    Died {
        /// Request that was pending.
        during: Op,
        /// Exit status of the process.
        status: ExitStatus,
    },
    /// The process is alive, but has closed its socket.
    #[error("closed its socket during `{during}`")]
    HungUp {
        /// Request that was pending.
        during: Op,
    },
    /// No reply arrived in time.
    #[error("gave no answer to `{during}` within {after}")]
    TimedOut {
        /// Request that was pending.
        during: Op,
        /// Duration of the wait, in wall time.
        after: Duration,
    },
    /// The reply violates the protocol.
    #[error("answered `{during}` with a malformed message: {what}: {line}")]
    Nonsense {
        /// Request that was pending.
        during: Op,
        /// Description of the violation.
        what: String,
        /// Beginning of the line that was received.
        line: String,
    },
    /// The reply contains NaN or an infinity, which JSON cannot express.
    #[error("answered `{during}` with a number that is not finite: {line}")]
    NotFinite {
        /// Request that was pending.
        during: Op,
        /// Beginning of the line that was received.
        line: String,
    },
    /// The reply is a line that is longer than the protocol allows.
    #[error("answered `{during}` with a line of more than {limit} bytes")]
    Oversize {
        /// Request that was pending.
        during: Op,
        /// Maximum length of a line, in bytes.
        limit: usize,
    },
    /// The plant refused the request with a protocol error, and continues to run.
    #[error("refused `{during}`: {message}{}", at_signal(signal.as_deref()))]
    Refused {
        /// Refused request.
        during: Op,
        /// Reason given by the plant.
        message: String,
        /// Signal that caused the refusal, if the plant named one.
        signal: Option<String>,
    },
}

/// Fault of a plant, with the plant's name and the last lines of its log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PlantError {
    /// Name of the plant in the scenario.
    pub plant: String,
    /// Fault that occurred.
    pub fault: PlantFault,
    /// Virtual instant of the failure. It is the instant that the plant reported, or else the last
    /// instant to which the plant had computed, but not the end of the requested step. `None` if
    /// the request had no instant.
    pub at: Option<Instant<Virtual>>,
    /// Last lines of the plant's log; empty if the plant only refused a request.
    pub log_tail: Vec<String>,
}

impl PlantError {
    /// Sets the instant of the failure to `at` if the plant did not report one. `at` is the instant
    /// to which the plant had computed.
    pub(crate) fn since(mut self, at: Instant<Virtual>) -> Self {
        self.at.get_or_insert(at);
        self
    }

    /// Returns true if the plant has ended, false if it only refused a request.
    pub fn is_fatal(&self) -> bool {
        !matches!(self.fault, PlantFault::Refused { .. })
    }
}

/// Formats a phrase about the request during which the plant died.
fn when(during: &Op) -> String {
    match during {
        Op::Idle => "unasked".to_owned(),
        during => format!("during `{during}`"),
    }
}

/// Formats a phrase about the signal that the plant named, if any.
fn at_signal(signal: Option<&str>) -> String {
    signal.map_or_else(String::new, |signal| format!(" (signal `{signal}`)"))
}

impl fmt::Display for PlantError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "plant `{}` {}", self.plant, self.fault)?;
        if !self.log_tail.is_empty() {
            f.write_str("; its log ends with:")?;
            for line in &self.log_tail {
                write!(f, "\n    {line}")?;
            }
        }
        Ok(())
    }
}

impl std::error::Error for PlantError {}
