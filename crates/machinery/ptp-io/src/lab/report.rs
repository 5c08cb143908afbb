//! Results of a laboratory.

use std::collections::BTreeMap;
use std::path::PathBuf;

use super::ptp4l::measurements;
use crate::{Alarm, Counters, EvidenceLine, SyncLine, SyncVerdict};

/// Result of a run.
#[derive(Debug)]
pub struct LabReport {
    /// All evidence lines of Timeloom's programs, in the order of arrival.
    pub lines: Vec<EvidenceLine>,
    /// Counters of Timeloom's programs, by the node's name.
    pub counters: BTreeMap<String, Counters>,
    /// Output of each ptp4l, by the node's name.
    pub logs: BTreeMap<String, String>,
    /// Path of the capture file of the slave's interface.
    pub capture: PathBuf,
    /// Number of messages that the attacker changed or created. For a lying hop, the number of the
    /// slave's Syncs that contain its false residence time.
    pub attacked: u64,
}

/// Distribution of the slave's offsets, whose true value is zero.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Spread {
    /// Number of offsets measured.
    pub count: usize,
    /// Median of the values, in nanoseconds.
    pub median_ns: f64,
    /// 5th percentile of the values, in nanoseconds.
    pub p5_ns: f64,
    /// 95th percentile of the values, in nanoseconds.
    pub p95_ns: f64,
}

impl Spread {
    fn of(mut values: Vec<f64>) -> Option<Self> {
        values.sort_by(f64::total_cmp);
        let at = |part: f64| {
            values
                .get(((values.len().saturating_sub(1)) as f64 * part).round() as usize)
                .copied()
        };
        Some(Self {
            count: values.len(),
            median_ns: at(0.5)?,
            p5_ns: at(0.05)?,
            p95_ns: at(0.95)?,
        })
    }
}

impl LabReport {
    pub(super) const fn new(capture: PathBuf) -> Self {
        Self {
            lines: Vec::new(),
            counters: BTreeMap::new(),
            logs: BTreeMap::new(),
            capture,
            attacked: 0,
        }
    }

    /// Returns the Syncs that the slave reported; none if the slave is ptp4l.
    pub fn syncs(&self) -> impl Iterator<Item = &SyncLine> {
        self.lines.iter().filter_map(|line| match line {
            EvidenceLine::Sync(sync) if &*sync.node == "slave" => Some(&**sync),
            _ => None,
        })
    }

    /// Returns the violations at all nodes that do not belong to a Sync.
    pub fn alarms(&self) -> impl Iterator<Item = &Alarm> {
        self.lines.iter().filter_map(|line| match line {
            EvidenceLine::Alarm(alarm) => Some(&**alarm),
            _ => None,
        })
    }

    /// Returns the number of violations at all Timeloom nodes, by `who: what and where`.
    pub fn violations(&self) -> BTreeMap<String, usize> {
        violations(&self.lines)
    }

    /// Returns the number of the slave's Syncs with this verdict.
    pub fn count(&self, verdict: SyncVerdict) -> usize {
        self.syncs()
            .filter(|sync| sync.report.record.verdict == verdict)
            .count()
    }

    /// Returns the offset and the path delay of each accepted measurement of the slave, in
    /// nanoseconds.
    pub fn measurements(&self) -> Vec<(f64, f64)> {
        match self.logs.get("slave") {
            Some(log) => measurements(log),
            None => self
                .syncs()
                .map(|sync| &sync.report.record)
                .filter(|record| record.verdict != SyncVerdict::Rejected)
                .filter_map(|record| Some((record.offset?, record.path_delay?)))
                .map(|(offset, delay)| (offset.as_ns_f64(), delay.as_ns_f64()))
                .collect(),
        }
    }

    /// Returns the distribution of the slave's offsets; `None` if there are none.
    pub fn offsets(&self) -> Option<Spread> {
        Spread::of(
            self.measurements()
                .into_iter()
                .map(|(offset, _)| offset)
                .collect(),
        )
    }

    /// Returns the distribution of the delay of the slave's link or path; `None` if there are no
    /// measurements.
    pub fn delays(&self) -> Option<Spread> {
        Spread::of(
            self.measurements()
                .into_iter()
                .map(|(_, delay)| delay)
                .collect(),
        )
    }
}

/// Returns the number of violations in `lines`, as [`LabReport::violations`] does.
pub(super) fn violations(lines: &[EvidenceLine]) -> BTreeMap<String, usize> {
    let mut all = BTreeMap::new();
    for line in lines {
        let (node, violations) = match line {
            EvidenceLine::Sync(sync) => (&*sync.node, sync.violations()),
            EvidenceLine::Alarm(alarm) => (&*alarm.node, vec![alarm.violation.clone()]),
            _ => continue,
        };
        for violation in violations {
            *all.entry(format!("{node}: {violation}")).or_default() += 1;
        }
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles() {
        assert_eq!(Spread::of(Vec::new()), None);
        let spread = Spread::of((0..=100).rev().map(f64::from).collect()).expect("values");
        assert_eq!(
            (spread.count, spread.median_ns, spread.p5_ns, spread.p95_ns),
            (101, 50.0, 5.0, 95.0)
        );
    }
}
