//! Measurements and counters of a simulated clock, beside the truth.

use std::collections::{BTreeMap, VecDeque};

use timeloom_ptp::security::Failure;
use timeloom_ptp::{PortState, Report};
use timeloom_time::{Duration, Instant, Virtual};

/// One Sync as measured by a slave.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Measured {
    /// Time of the measurement, after the arrival of its Follow_Up.
    pub at: Instant<Virtual>,
    /// `sequenceId`.
    pub sequence: u16,
    /// Slave − master, as measured, in ns.
    pub offset_ns: f64,
    /// True offset of the slave's clock from true time when the Sync arrived, in ns. With a master
    /// that sends true time, `offset_ns` less this is the error of the measurement.
    pub ahead_ns: i64,
    /// Delay used in the calculation, in ns.
    pub delay_ns: f64,
    /// True if every hop's signature was valid.
    pub authenticated: bool,
}

impl Measured {
    /// Returns the error of the measurement, if the master sent true time.
    pub fn error_ns(&self) -> f64 {
        self.offset_ns - self.ahead_ns as f64
    }
}

/// A noticed violation: time that is not vouched for.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Violation {
    /// Time at which it was noticed.
    pub at: Instant<Virtual>,
    /// Kind, message, and the clocks between which it happened.
    pub failure: Failure,
    /// Number of violations that this clock has noticed up to now.
    pub count: u64,
    /// Offset of a slave's clock from true time when that message's Sync arrived, in ns.
    pub ahead_ns: Option<i64>,
}

/// Event for an observer.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Event {
    /// A Sync measured by a slave, and the number of violations it has noticed up to now.
    Measured(Measured, u64),
    /// A violation noticed by a clock.
    Violation(Violation),
}

/// Counters of a clock.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Tally {
    /// Syncs that a slave measured.
    pub measured: u64,
    /// The last of them.
    pub last: Option<Measured>,
    /// Syncs that a transparent clock forwarded, once for each port.
    pub relayed: u64,
    /// Longest residence among them, in ns.
    pub longest_residence_ns: f64,
    /// Unused messages, by reason.
    pub dropped: BTreeMap<String, u64>,
    /// Violations of authenticated time, by reason.
    pub failures: BTreeMap<String, u64>,
    /// Messages that a rogue changed, made or delayed.
    pub tampered: u64,
    /// State of an ordinary clock's port, once it has entered one.
    pub state: Option<PortState>,
}

/// True offsets at the arrival of the last Syncs.
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

    /// Adjusts for a step of the clock.
    pub(crate) fn step(&mut self, length: Duration) {
        for (_, ahead_ns) in &mut self.0 {
            *ahead_ns += length.as_ns();
        }
    }
}

impl Tally {
    /// Returns the number of noticed violations of authenticated time.
    pub fn violations(&self) -> u64 {
        self.failures.values().sum()
    }

    /// Counts a report; returns the event for an observer, if any.
    pub(crate) fn count(
        &mut self,
        now: Instant<Virtual>,
        report: &Report,
        truths: &Truths,
    ) -> Option<Event> {
        match report {
            Report::Offset {
                sequence,
                offset,
                delay,
                authenticated,
                ..
            } => {
                let measured = Measured {
                    at: now,
                    sequence: *sequence,
                    offset_ns: offset.as_ns_f64(),
                    ahead_ns: truths.of(*sequence)?,
                    delay_ns: delay.as_ns_f64(),
                    authenticated: *authenticated,
                };
                self.measured += 1;
                self.last = Some(measured);
                return Some(Event::Measured(measured, self.violations()));
            }
            Report::Relayed { residence, .. } => {
                self.relayed += 1;
                self.longest_residence_ns = self.longest_residence_ns.max(residence.as_ns_f64());
            }
            Report::State { state, .. } => self.state = Some(*state),
            Report::Dropped { reason, .. } => {
                *self.dropped.entry(reason.to_string()).or_default() += 1;
            }
            Report::Failure { failure, .. } => {
                let reason = failure.reason.to_string();
                *self.failures.entry(reason).or_default() += 1;
                return Some(Event::Violation(Violation {
                    at: now,
                    failure: *failure,
                    count: self.violations(),
                    ahead_ns: truths.of(failure.sequence),
                }));
            }
            Report::PeerDelay { .. } | Report::Sync(_) => {}
        }
        None
    }
}
