//! Measurements and counters of a simulated clock, together with true values.

use std::collections::{BTreeMap, VecDeque};

use timeloom_ptp::security::VerificationFailure;
use timeloom_ptp::{ClockReport, PortState};
use timeloom_time::{Duration, Instant, Virtual};

/// One Sync as measured by a slave.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SyncMeasurement {
    /// Virtual time of the measurement, after the Follow_Up has arrived.
    pub at: Instant<Virtual>,
    /// `sequenceId`.
    pub sequence: u16,
    /// Measured offset: slave minus master, in ns.
    pub offset_ns: f64,
    /// True offset: the slave's clock minus true time when the Sync arrived, in ns. If the master
    /// sends true time, `offset_ns` minus this value is the error of the measurement.
    pub ahead_ns: i64,
    /// Path or link delay used in the measurement, in ns.
    pub delay_ns: f64,
    /// True if the signature of every hop was valid.
    pub authenticated: bool,
}

impl SyncMeasurement {
    /// Returns the error of the measurement in ns, provided that the master sent true time.
    pub fn error_ns(&self) -> f64 {
        self.offset_ns - self.ahead_ns as f64
    }
}

/// Violation that a clock noticed: received time is not authenticated by all clocks on the path.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ClockViolation {
    /// Virtual time at which the clock noticed the violation.
    pub at: Instant<Virtual>,
    /// Kind of violation, the message, and the clocks between which it happened.
    pub failure: VerificationFailure,
    /// Number of violations that this clock has noticed so far, including this one.
    pub count: u64,
    /// For a slave: its clock minus true time when the message's Sync arrived, in ns.
    pub ahead_ns: Option<i64>,
}

/// Event for an observer.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum ClockEvent {
    /// A slave measured a Sync; the number is that of the violations that it has noticed so far.
    Measured(SyncMeasurement, u64),
    /// A clock noticed a violation.
    Violation(ClockViolation),
}

/// Counters of one clock.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ClockCounters {
    /// Number of Syncs that a slave measured.
    pub measured: u64,
    /// The last measured Sync.
    pub last: Option<SyncMeasurement>,
    /// Number of Syncs that a transparent clock forwarded, counted per egress port.
    pub relayed: u64,
    /// Longest residence time of a forwarded Sync, in ns.
    pub longest_residence_ns: f64,
    /// Number of messages that were not used, by reason.
    pub dropped: BTreeMap<String, u64>,
    /// Number of violations, by reason.
    pub failures: BTreeMap<String, u64>,
    /// Number of messages that an attacker changed, forged or delayed.
    pub tampered: u64,
    /// State of an ordinary clock's port; `None` before its first state.
    pub state: Option<PortState>,
}

/// True offsets in ns at the arrival of the last Syncs, by `sequenceId`.
#[derive(Debug, Default)]
pub(crate) struct Truths(VecDeque<(u16, i64)>);

const KEPT: usize = 32;

impl Truths {
    pub(crate) fn note(&mut self, sequence: u16, ahead: Duration) {
        if self.0.len() == KEPT {
            self.0.pop_front();
        }
        self.0.push_back((sequence, ahead.as_ns()));
    }

    fn of(&self, sequence: u16) -> Option<i64> {
        let found = self.0.iter().rev().find(|(of, _)| *of == sequence)?;
        Some(found.1)
    }

    /// Adds a step of the clock to the stored offsets.
    pub(crate) fn step(&mut self, length: Duration) {
        for (_, ahead_ns) in &mut self.0 {
            *ahead_ns += length.as_ns();
        }
    }
}

impl ClockCounters {
    /// Returns the number of violations that this clock noticed.
    pub fn violations(&self) -> u64 {
        self.failures.values().sum()
    }

    /// Counts a report of the state machine. Returns the event for the observer, if there is one.
    pub(crate) fn count(
        &mut self,
        now: Instant<Virtual>,
        report: &ClockReport,
        truths: &Truths,
    ) -> Option<ClockEvent> {
        match report {
            ClockReport::Offset {
                sequence,
                offset,
                delay,
                authenticated,
                ..
            } => {
                let measured = SyncMeasurement {
                    at: now,
                    sequence: *sequence,
                    offset_ns: offset.as_ns_f64(),
                    ahead_ns: truths.of(*sequence)?,
                    delay_ns: delay.as_ns_f64(),
                    authenticated: *authenticated,
                };
                self.measured += 1;
                self.last = Some(measured);
                return Some(ClockEvent::Measured(measured, self.violations()));
            }
            ClockReport::Relayed { residence, .. } => {
                self.relayed += 1;
                self.longest_residence_ns = self.longest_residence_ns.max(residence.as_ns_f64());
            }
            ClockReport::State { state, .. } => self.state = Some(*state),
            ClockReport::Dropped { reason, .. } => {
                *self.dropped.entry(reason.to_string()).or_default() += 1;
            }
            ClockReport::Failure { failure, .. } => {
                let reason = failure.reason.to_string();
                *self.failures.entry(reason).or_default() += 1;
                return Some(ClockEvent::Violation(ClockViolation {
                    at: now,
                    failure: *failure,
                    count: self.violations(),
                    ahead_ns: truths.of(failure.sequence),
                }));
            }
            ClockReport::PeerDelay { .. } | ClockReport::Sync(_) => {}
        }
        None
    }
}
