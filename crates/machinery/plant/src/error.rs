//! What a plant can do wrong, each with its name.

use std::fmt;
use std::process::ExitStatus;

use timeloom_time::{Duration, Instant, Virtual};

/// The operations of the plant protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Op {
    /// Say what you are and what you have.
    Init,
    /// Go to a virtual instant.
    Advance,
    /// Tell values.
    Read,
    /// Take values.
    Write,
    /// Finish and exit.
    Stop,
    /// None: it was asked nothing.
    Idle,
}

impl Op {
    /// The word in the `op` member.
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

/// What happened to a plant. After any but [`Fault::Refused`] its process has
/// been killed and reaped, and every later request gets the same fault.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Fault {
    /// The process could not be started.
    #[error("could not be started: {reason}")]
    Start {
        /// The system's reason.
        reason: String,
    },
    /// The process ended by itself.
    #[error("died {} ({status})", when(during))]
    Died {
        /// What it had been asked.
        during: Op,
        /// How it ended.
        status: ExitStatus,
    },
    /// The process lives but closed its socket.
    #[error("closed its socket during `{during}`")]
    HungUp {
        /// What it had been asked.
        during: Op,
    },
    /// No answer in time.
    #[error("gave no answer to `{during}` within {after}")]
    TimedOut {
        /// What it had been asked.
        during: Op,
        /// How long was waited, wall time.
        after: Duration,
    },
    /// The answer breaks the protocol.
    #[error("answered `{during}` with nonsense: {what}: {line}")]
    Nonsense {
        /// What it had been asked.
        during: Op,
        /// What is wrong with it.
        what: String,
        /// The beginning of the line.
        line: String,
    },
    /// The answer has a number that is not finite, which JSON cannot say.
    #[error("answered `{during}` with a number that is not finite: {line}")]
    NotFinite {
        /// What it had been asked.
        during: Op,
        /// The beginning of the line.
        line: String,
    },
    /// The answer is a line longer than the protocol allows.
    #[error("answered `{during}` with a line of more than {limit} bytes")]
    Oversize {
        /// What it had been asked.
        during: Op,
        /// The longest line allowed, in bytes.
        limit: usize,
    },
    /// The plant said no, in the protocol's own way. It lives on.
    #[error("refused `{during}`: {message}{}", at_signal(signal.as_deref()))]
    Refused {
        /// What it had been asked.
        during: Op,
        /// Its reason.
        message: String,
        /// The signal at fault, when it named one.
        signal: Option<String>,
    },
}

/// A [`Fault`] with the plant's name and the last lines of its log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PlantError {
    /// The plant, as the scenario names it.
    pub plant: String,
    /// What happened.
    pub fault: Fault,
    /// Virtual instant of the failure, not the end of the requested step: the instant reported by
    /// the plant, or else the last to which it had computed. `None` if the request had no instant.
    pub at: Option<Instant<Virtual>>,
    /// The last lines it wrote to its log; empty when it was merely refused.
    pub log_tail: Vec<String>,
}

impl PlantError {
    /// Sets the instant to `at`, to which the plant had computed, unless the plant reported one.
    pub(crate) fn since(mut self, at: Instant<Virtual>) -> Self {
        self.at.get_or_insert(at);
        self
    }

    /// Whether the plant is gone. Otherwise it only said no to one request.
    pub fn is_fatal(&self) -> bool {
        !matches!(self.fault, Fault::Refused { .. })
    }
}

/// How a fault says what a plant was doing when it died.
fn when(during: &Op) -> String {
    match during {
        Op::Idle => "unasked".to_owned(),
        during => format!("during `{during}`"),
    }
}

/// How a fault says which signal its plant named.
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
