//! The lines of an evidence log, as data and as text for people.

use std::collections::BTreeMap;
use std::fmt;

use serde::Serialize;
use timeloom_wire::ClockIdentity;

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
        delay_ns: f64,
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
        residence_ns: f64,
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

/// What became of a Sync.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Fate {
    /// Every hop's signature holds.
    Accepted,
    /// Measured, and nobody vouches for it.
    Unsigned,
    /// Not used.
    Rejected,
    /// Its Follow_Up or its delay was missing.
    Incomplete,
}

/// A Sync.
#[derive(Clone, Debug, Serialize)]
pub struct SyncLine {
    /// When the line was written.
    pub t_ns: i64,
    /// Who says it.
    pub node: String,
    /// Whose Sync.
    pub source: String,
    /// Its `sequenceId`.
    pub sequence: u16,
    /// When it arrived, by the clock that stamps.
    pub arrival_ns: Option<i64>,
    /// When it left the grandmaster.
    pub origin_ns: Option<i64>,
    /// Corrections of Sync and Follow_Up.
    pub correction_ns: Option<f64>,
    /// Who signed which part of it.
    pub hops: Vec<HopLine>,
    /// Slave − master.
    pub offset_ns: Option<f64>,
    /// Delay of the ingress link, or of the path.
    pub path_delay_ns: Option<f64>,
    /// What became of it.
    pub verdict: Fate,
    /// What is wrong, and where.
    pub failures: Vec<Violation>,
}

/// One hop's part.
#[derive(Clone, Debug, Serialize)]
pub struct HopLine {
    /// Who.
    pub clock: String,
    /// In by.
    pub ingress: u8,
    /// Out by.
    pub egress: u8,
    /// What it answers for.
    pub contribution_ns: f64,
    /// `holds`, `suspect`, `unproven`, or `unverified`.
    pub verdict: &'static str,
    #[serde(skip)]
    pub(super) identity: ClockIdentity,
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

impl fmt::Display for SyncLine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} #{} {:?}", self.source, self.sequence, self.verdict)?;
        if let (Some(offset), Some(delay)) = (self.offset_ns, self.path_delay_ns) {
            write!(f, ": offset {offset:.0} ns, delay {delay:.0} ns")?;
        }
        if !self.hops.is_empty() {
            write!(f, ", {} hops", self.hops.len())?;
        }
        self.failures
            .iter()
            .try_for_each(|violation| write!(f, "; {violation}"))
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
