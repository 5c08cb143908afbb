//! Lines of an evidence log, both as data and as readable text.

use std::collections::BTreeMap;
use std::fmt;

use serde::Serialize;
use timeloom_wire::TimeInterval;

use super::SyncLine;
use super::sync_line::exact_ns;

/// Line of the log. Instants are of the system clock, in nanoseconds since 1970.
#[derive(Clone, Debug, Serialize)]
#[serde(tag = "type", rename_all = "lowercase")]
pub enum EvidenceLine {
    /// Sync message and its outcome.
    Sync(Box<SyncLine>),
    /// Violation that does not belong to a Sync under way.
    Alarm(Box<Alarm>),
    /// Change of a port's state.
    State {
        /// Time of the event.
        t_ns: i64,
        /// Reporting node.
        node: String,
        /// Name of the new state.
        state: String,
        /// Grandmaster that the port follows, if any.
        grandmaster: Option<String>,
    },
    /// Measurement of a port's link delay.
    Link {
        /// Time of the event.
        t_ns: i64,
        /// Reporting node.
        node: String,
        /// Port number.
        port: u16,
        /// Clock at the other end of the link.
        neighbour: String,
        /// Mean delay of both directions.
        #[serde(rename = "delay_ns", serialize_with = "exact_ns")]
        delay: TimeInterval,
    },
    /// Sync message that a transparent clock forwarded.
    Relay {
        /// Time of the event.
        t_ns: i64,
        /// Reporting node.
        node: String,
        /// Value of `sequenceId` of the Sync.
        sequence: u16,
        /// Number of the port on which the Sync arrived.
        ingress: u16,
        /// Number of the port on which the Sync was sent.
        egress: u16,
        /// Residence time of the Sync, in the grandmaster's seconds.
        #[serde(rename = "residence_ns", serialize_with = "exact_ns")]
        residence: TimeInterval,
    },
    /// Notice for the operator.
    Notice {
        /// Time of the event.
        t_ns: i64,
        /// Reporting node.
        node: String,
        /// Text of the notice.
        text: String,
    },
    /// Final counters of a program.
    Summary {
        /// Time of the event.
        t_ns: i64,
        /// Reporting node.
        node: String,
        /// Number of messages received.
        received: u64,
        /// Number of messages sent.
        sent: u64,
        /// Number of messages that the kernel refused to send.
        send_errors: u64,
        /// Number of steps of the system clock that were detected.
        clock_steps: u64,
        /// Number of timestamps that were discarded.
        stamps_discarded: u64,
        /// Number of messages that were not used, by reason.
        dropped: BTreeMap<String, u64>,
        /// Number of violations, by reason.
        failures: BTreeMap<String, u64>,
    },
}

/// Violation and the link on which it happened.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Violation {
    /// Kind of violation.
    pub reason: String,
    /// Upstream end of that link; if absent, any upstream clock may be responsible.
    pub after: Option<String>,
    /// Downstream end of that link.
    pub before: String,
}

/// Violation that does not belong to a Sync under way.
#[derive(Clone, Debug, Serialize)]
pub struct Alarm {
    /// Time of the event.
    pub t_ns: i64,
    /// Node that noticed the violation.
    pub node: String,
    /// Source that the message claims to have.
    pub source: String,
    /// Value of `sequenceId` of the message.
    pub sequence: u16,
    /// Kind and place of the violation.
    #[serde(flatten)]
    pub violation: Violation,
}

impl fmt::Display for EvidenceLine {
    /// Formats the line as readable text. Lines that only a log needs give an empty text.
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
