//! What a simulated clock has measured and done, beside the truth.

use std::collections::{BTreeMap, VecDeque};

use timeloom_ptp::security::Failure;
use timeloom_ptp::{PortState, Report};
use timeloom_time::{Duration, Instant, Virtual};

/// One Sync as a slave measured it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Measured {
    /// When it was measured: once its Follow_Up had come.
    pub at: Instant<Virtual>,
    /// `sequenceId`.
    pub sequence: u16,
    /// Slave − master, as measured, in ns.
    pub offset_ns: f64,
    /// How much the slave's clock really was ahead of true time when the Sync
    /// came, in ns. With a master that tells true time, `offset_ns` less this is
    /// the error of the measurement.
    pub ahead_ns: i64,
    /// The delay that was reckoned with, in ns.
    pub delay_ns: f64,
    /// Whether every hop's signature held.
    pub authenticated: bool,
}

impl Measured {
    /// By how much the measurement was wrong, if the master told true time.
    pub fn error_ns(&self) -> f64 {
        self.offset_ns - self.ahead_ns as f64
    }
}

/// A clock noticed that time is not answered for.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Violation {
    /// When it was noticed.
    pub at: Instant<Virtual>,
    /// What, of which message, and between which clocks.
    pub failure: Failure,
    /// How many this clock has noticed up to now.
    pub count: u64,
    /// How much a slave's clock was ahead of true time when that message's Sync
    /// came, in ns.
    pub ahead_ns: Option<i64>,
}

/// What an observer is told.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Event {
    /// A slave measured a Sync; how many violations it has noticed up to now.
    Measured(Measured, u64),
    /// A clock noticed a violation.
    Violation(Violation),
}

/// Counts of a clock.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Tally {
    /// Syncs that a slave measured.
    pub measured: u64,
    /// The last of them.
    pub last: Option<Measured>,
    /// Syncs that a transparent clock handed on, once for each port.
    pub relayed: u64,
    /// The longest of them stayed this long, in ns.
    pub longest_residence_ns: f64,
    /// Messages not used, by reason.
    pub dropped: BTreeMap<String, u64>,
    /// Violations of authenticated time, by reason.
    pub failures: BTreeMap<String, u64>,
    /// What a rogue changed, made or held back.
    pub tampered: u64,
    /// The state of an ordinary clock's port, once it has entered one.
    pub state: Option<PortState>,
}

/// What was true when the last Syncs came.
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

    /// The clock was set.
    pub(crate) fn step(&mut self, length: Duration) {
        for (_, ahead_ns) in &mut self.0 {
            *ahead_ns += length.as_ns();
        }
    }
}

impl Tally {
    /// How many violations of authenticated time were noticed.
    pub fn violations(&self) -> u64 {
        self.failures.values().sum()
    }

    /// Counts a report; what an observer is to be told comes back.
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
