//! The lines of an evidence log, as data and as text for people.

use std::collections::BTreeMap;
use std::fmt;

use serde::Serialize;
use timeloom_wire::TimeInterval;

use super::SyncLine;
use super::sync_line::exact_ns;

/// One line of the log. Instants are civil, in nanoseconds since 1970.
#[derive(Clone, Debug, Serialize)]
#[serde(tag = "type", rename_all = "lowercase")]
pub enum Line {
    /// A Sync and what became of it.
    Sync(Box<SyncLine>),
    /// A violation that belongs to no Sync that is open.
    Alarm(Box<Alarm>),
    /// The port changed its state.
    State {
        /// When.
        t_ns: i64,
        /// Who says it.
        node: String,
        /// The state entered.
        state: String,
        /// The grandmaster followed.
        grandmaster: Option<String>,
    },
    /// A port measured its link.
    Link {
        /// When.
        t_ns: i64,
        /// Who says it.
        node: String,
        /// Which port.
        port: u16,
        /// To whom.
        neighbour: String,
        /// Mean delay.
        #[serde(rename = "delay_ns", serialize_with = "exact_ns")]
        delay: TimeInterval,
    },
    /// A transparent clock handed a Sync on.
    Relay {
        /// When.
        t_ns: i64,
        /// Who says it.
        node: String,
        /// Its `sequenceId`.
        sequence: u16,
        /// In by.
        ingress: u16,
        /// Out by.
        egress: u16,
        /// How long it stayed, in the grandmaster's seconds.
        #[serde(rename = "residence_ns", serialize_with = "exact_ns")]
        residence: TimeInterval,
    },
    /// Something for people.
    Notice {
        /// When.
        t_ns: i64,
        /// Who says it.
        node: String,
        /// What.
        text: String,
    },
    /// What was counted, at the end.
    Summary {
        /// When.
        t_ns: i64,
        /// Who says it.
        node: String,
        /// Messages in.
        received: u64,
        /// Messages out.
        sent: u64,
        /// Messages the kernel refused.
        send_errors: u64,
        /// Steps of the civil clock seen.
        clock_steps: u64,
        /// Stamps not used.
        stamps_discarded: u64,
        /// Messages not used, by reason.
        dropped: BTreeMap<String, u64>,
        /// Violations, by reason.
        failures: BTreeMap<String, u64>,
    },
}

/// What is wrong, and between whom.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Violation {
    /// What.
    pub reason: String,
    /// The upstream end of the link where it happened; anybody upstream when absent.
    pub after: Option<String>,
    /// The downstream end.
    pub before: String,
}

/// A violation on its own.
#[derive(Clone, Debug, Serialize)]
pub struct Alarm {
    /// When.
    pub t_ns: i64,
    /// Who noticed.
    pub node: String,
    /// Whose message it claims to be.
    pub source: String,
    /// Its `sequenceId`.
    pub sequence: u16,
    /// What and where.
    #[serde(flatten)]
    pub violation: Violation,
}

impl fmt::Display for Line {
    /// One line of text; empty for what only a log needs.
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
