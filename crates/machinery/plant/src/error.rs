//! Faults of plants, each with its name.

use std::fmt;
use std::process::ExitStatus;

use timeloom_time::{Duration, Instant, Virtual};

/// The operations of the plant protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Op {
    /// Start and describe the plant.
    Init,
    /// Advance to a virtual instant.
    Advance,
    /// Read signals.
    Read,
    /// Write signals.
    Write,
    /// Finish and exit.
    Stop,
    /// None: no request was pending.
    Idle,
}

impl Op {
    /// Returns the word used in the `op` member.
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

/// A fault of a plant. After any but [`Fault::Refused`] the process has been killed and reaped, and
/// every later request returns the same fault.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Fault {
    /// The process could not be started.
    #[error("could not be started: {reason}")]
    Start {
        /// Reason given by the operating system.
        reason: String,
    },
    /// The process ended by itself.
    #[error("died {} ({status})", when(during))]
    Died {
        /// Pending request.
        during: Op,
        /// Exit status of the process.
        status: ExitStatus,
    },
    /// The process is alive but closed its socket.
    #[error("closed its socket during `{during}`")]
    HungUp {
        /// Pending request.
        during: Op,
    },
    /// No reply arrived in time.
    #[error("gave no answer to `{during}` within {after}")]
    TimedOut {
        /// Pending request.
        during: Op,
        /// Duration of the wait, in wall time.
        after: Duration,
    },
    /// The reply violates the protocol.
    #[error("answered `{during}` with nonsense: {what}: {line}")]
    Nonsense {
        /// Pending request.
        during: Op,
        /// Description of the violation.
        what: String,
        /// Beginning of the line.
        line: String,
    },
    /// The reply has a number that is not finite, which JSON cannot express.
    #[error("answered `{during}` with a number that is not finite: {line}")]
    NotFinite {
        /// Pending request.
        during: Op,
        /// Beginning of the line.
        line: String,
    },
    /// The reply is a line longer than the protocol allows.
    #[error("answered `{during}` with a line of more than {limit} bytes")]
    Oversize {
        /// Pending request.
        during: Op,
        /// Maximum line length, in bytes.
        limit: usize,
    },
    /// The plant refused the request with a protocol error. It continues to run.
    #[error("refused `{during}`: {message}{}", at_signal(signal.as_deref()))]
    Refused {
        /// Refused request.
        during: Op,
        /// Reason given by the plant.
        message: String,
        /// The signal at fault, if the plant named one.
        signal: Option<String>,
    },
}

/// A [`Fault`] with the plant's name and the last lines of its log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PlantError {
    /// Name of the plant in the scenario.
    pub plant: String,
    /// The fault.
    pub fault: Fault,
    /// Virtual instant of the failure, not the end of the requested step: the instant reported by
    /// the plant, or else the last to which it had computed. `None` if the request had no instant.
    pub at: Option<Instant<Virtual>>,
    /// Last lines of the plant's log; empty if the plant only refused a request.
    pub log_tail: Vec<String>,
}

impl PlantError {
    /// Sets the instant to `at`, to which the plant had computed, unless the plant reported one.
    pub(crate) fn since(mut self, at: Instant<Virtual>) -> Self {
        self.at.get_or_insert(at);
        self
    }

    /// Returns true if the plant has ended, false if it only refused a request.
    pub fn is_fatal(&self) -> bool {
        !matches!(self.fault, Fault::Refused { .. })
    }
}

/// Formats the request during which the plant died.
fn when(during: &Op) -> String {
    match during {
        Op::Idle => "unasked".to_owned(),
        during => format!("during `{during}`"),
    }
}

/// Formats the signal named by the plant.
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
