//! Lines of an evidence log, as data and as readable text.

use std::collections::BTreeMap;
use std::fmt;

use serde::Serialize;
use timeloom_wire::TimeInterval;

use super::SyncLine;
use super::sync_line::exact_ns;

/// One line of the log. Instants are civil time, in nanoseconds since 1970.
#[derive(Clone, Debug, Serialize)]
#[serde(tag = "type", rename_all = "lowercase")]
pub enum Line {
    /// A Sync and its outcome.
    Sync(Box<SyncLine>),
    /// A violation that belongs to no open Sync.
    Alarm(Box<Alarm>),
    /// A change of the port's state.
    State {
        /// Time of the event.
        t_ns: i64,
        /// Reporting node.
        node: String,
        /// State entered.
        state: String,
        /// Grandmaster followed.
        grandmaster: Option<String>,
    },
    /// A link measurement of a port.
    Link {
        /// Time of the event.
        t_ns: i64,
        /// Reporting node.
        node: String,
        /// Port number.
        port: u16,
        /// Neighbour at the other end.
        neighbour: String,
        /// Mean delay.
        #[serde(rename = "delay_ns", serialize_with = "exact_ns")]
        delay: TimeInterval,
    },
    /// A Sync forwarded by a transparent clock.
    Relay {
        /// Time of the event.
        t_ns: i64,
        /// Reporting node.
        node: String,
        /// Its `sequenceId`.
        sequence: u16,
        /// Ingress port.
        ingress: u16,
        /// Egress port.
        egress: u16,
        /// Residence time, in the grandmaster's seconds.
        #[serde(rename = "residence_ns", serialize_with = "exact_ns")]
        residence: TimeInterval,
    },
    /// A notice for the operator.
    Notice {
        /// Time of the event.
        t_ns: i64,
        /// Reporting node.
        node: String,
        /// Text of the notice.
        text: String,
    },
    /// Final counters.
    Summary {
        /// Time of the event.
        t_ns: i64,
        /// Reporting node.
        node: String,
        /// Messages received.
        received: u64,
        /// Messages sent.
        sent: u64,
        /// Messages that the kernel refused to send.
        send_errors: u64,
        /// Detected steps of the civil clock.
        clock_steps: u64,
        /// Discarded stamps.
        stamps_discarded: u64,
        /// Unused messages, by reason.
        dropped: BTreeMap<String, u64>,
        /// Violations, by reason.
        failures: BTreeMap<String, u64>,
    },
}

/// A violation and its place.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Violation {
    /// Kind of violation.
    pub reason: String,
    /// Upstream end of the link where it happened; any upstream clock if absent.
    pub after: Option<String>,
    /// Downstream end.
    pub before: String,
}

/// A violation that belongs to no open Sync.
#[derive(Clone, Debug, Serialize)]
pub struct Alarm {
    /// Time of the event.
    pub t_ns: i64,
    /// Node that noticed it.
    pub node: String,
    /// Claimed source of the message.
    pub source: String,
    /// Its `sequenceId`.
    pub sequence: u16,
    /// Violation and its place.
    #[serde(flatten)]
    pub violation: Violation,
}

impl fmt::Display for Line {
    /// Formats one line of text; empty for lines that only a log needs.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Sync(sync) => sync.fmt(f),
            Self::Alarm(alarm) => write!(
                f,
                "ALARM {} #{}: {}",
                alarm.source, alarm.sequence, alarm.violation
            ),
            Self::State {
                state, grandmaster, ..
            } => {
                write!(f, "{state}")?;
                grandmaster
                    .as_ref()
                    .map_or(Ok(()), |grandmaster| write!(f, " of {grandmaster}"))
            }
            Self::Link { .. } | Self::Relay { .. } => Ok(()),
            Self::Notice { text, .. } => f.write_str(text),
            Self::Summary {
                received,
                sent,
                dropped,
                failures,
                stamps_discarded,
                ..
            } => {
                write!(f, "{received} messages in, {sent} out")?;
                if *stamps_discarded > 0 {
                    write!(f, ", {stamps_discarded} stamps not used")?;
                }
                for (reason, count) in dropped {
                    write!(f, "; dropped: {reason} × {count}")?;
                }
                for (reason, count) in failures {
                    write!(f, "; violated: {reason} × {count}")?;
                }
                Ok(())
            }
        }
    }
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.after {
            Some(after) => write!(f, "{} between {after} and {}", self.reason, self.before),
            None => write!(f, "{} upstream of {}", self.reason, self.before),
        }
    }
}
