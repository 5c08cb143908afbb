//! Line about a Sync: the slave's report, with names instead of identities.

use std::fmt;
use std::sync::Arc;

use serde::{Serialize, Serializer};
use timeloom_ptp::{HopRecord, SyncReport};
use timeloom_timeline::protocol::Nanoseconds;
use timeloom_wire::TimeInterval;

use super::{Names, Violation};

/// Sync message and its outcome.
#[derive(Clone, Debug)]
pub struct SyncLine {
    /// Instant of the report by the system clock, in nanoseconds since 1970.
    pub t_ns: i64,
    /// Reporting node.
    pub node: Arc<str>,
    /// Report of the slave.
    pub report: SyncReport,
    pub(super) names: Arc<Names>,
}

impl SyncLine {
    /// Returns the name of the port that sent the Sync.
    pub fn source(&self) -> String {
        self.names.port(self.report.source)
    }

    /// Returns the violations of this Sync, with the clocks' names.
    pub fn violations(&self) -> Vec<Violation> {
        let failures = self.report.failures.iter();
        failures
            .map(|(reason, suspect)| self.names.violation(*reason, suspect))
            .collect()
    }

    /// Returns the names of the hops that guarantee a part of the correction.
    pub fn hop_names(&self) -> Vec<String> {
        let hops = self.report.hops.iter();
        hops.map(|hop| self.hop_name(hop)).collect()
    }

    fn hop_name(&self, hop: &HopRecord) -> String {
        hop.clock
            .map_or_else(|| hop.signer.to_string(), |clock| self.names.of(clock))
    }
}

#[derive(Serialize)]
struct SyncText<'a> {
    t_ns: i64,
    node: &'a str,
    source: String,
    sequence: u16,
    arrival_ns: Option<i64>,
    origin_ns: Option<i64>,
    correction_ns: Option<Nanoseconds>,
    hops: Vec<HopText>,
    offset_ns: Option<Nanoseconds>,
    path_delay_ns: Option<Nanoseconds>,
    verdict: &'static str,
    failures: Vec<Violation>,
}

#[derive(Serialize)]
struct HopText {
    clock: String,
    ingress: u8,
    egress: u8,
    contribution_ns: Nanoseconds,
    verdict: &'static str,
}

impl Serialize for SyncLine {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let record = &self.report.record;
        let hop = |hop: &HopRecord| HopText {
            clock: self.hop_name(hop),
            ingress: hop.ingress,
            egress: hop.egress,
            contribution_ns: Nanoseconds(hop.contribution),
            verdict: hop.verdict.word(),
        };
        let text = SyncText {
            t_ns: self.t_ns,
            node: &self.node,
            source: self.source(),
            sequence: record.sequence,
            arrival_ns: record.arrival.map(|stamp| stamp.as_ns()),
            origin_ns: record.origin.map(|origin| origin.as_ns()),
            correction_ns: record.correction.map(Nanoseconds),
            hops: self.report.hops.iter().map(hop).collect(),
            offset_ns: record.offset.map(Nanoseconds),
            path_delay_ns: record.path_delay.map(Nanoseconds),
            verdict: record.verdict.word(),
            failures: self.violations(),
        };
        text.serialize(serializer)
    }
}

impl fmt::Display for SyncLine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let record = &self.report.record;
        let (source, sequence) = (self.source(), record.sequence);
        write!(f, "{source} #{sequence} {}", record.verdict.word())?;
        if let (Some(offset), Some(delay)) = (record.offset, record.path_delay) {
            let (offset, delay) = (offset.round_ns(), delay.round_ns());
            write!(f, ": offset {offset} ns, delay {delay} ns")?;
        }
        if !self.report.hops.is_empty() {
            write!(f, ", {} hops", self.report.hops.len())?;
        }
        let violations = self.violations();
        violations.iter().try_for_each(|of| write!(f, "; {of}"))
    }
}

/// Serializes a duration as an exact number of nanoseconds.
pub(super) fn exact_ns<S: Serializer>(
    length: &TimeInterval,
    serializer: S,
) -> Result<S::Ok, S::Error> {
    Nanoseconds(*length).serialize(serializer)
}
