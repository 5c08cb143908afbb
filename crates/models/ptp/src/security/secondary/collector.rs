//! Collection of the statements that a slave has received, from which it reconstructs the path.

use std::collections::VecDeque;

use timeloom_wire::{ClockIdentity, PortIdentity, TimeInterval, Timestamp};

use super::super::{Limits, Suspect, SyncFacts, ViolationKind, hop_stated};
use super::statement::{Role, Statement, view_of};
use crate::HopRecord;

/// The newest verified statements, up to a maximum number.
#[derive(Debug, Default)]
pub(crate) struct Collector(VecDeque<Statement>);

/// Result of evaluating the statements about a Follow_Up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// All statements have arrived, and agree.
    Accepted { sync: usize, sequence48: u64 },
    /// The statement of a clock is missing, and may still arrive; the value gives the clock's
    /// place.
    Missing(Suspect),
    /// The statements do not agree.
    Failed(ViolationKind, Suspect),
}

/// A Follow_Up that the slave received, with its Syncs.
pub(crate) struct Received<'a> {
    pub(crate) me: ClockIdentity,
    pub(crate) upstream: ClockIdentity,
    pub(crate) domain: u8,
    pub(crate) source: PortIdentity,
    pub(crate) sequence: u16,
    pub(crate) precise_origin: Timestamp,
    pub(crate) correction: TimeInterval,
    pub(crate) syncs: &'a [SyncFacts],
}

const CAPACITY: usize = 512;

impl Collector {
    pub(crate) fn add(&mut self, statement: Statement) {
        if self.0.len() == CAPACITY {
            self.0.pop_front();
        }
        self.0.push_back(statement);
    }

    /// Returns the contributions in the hops' statements about this Sync, in the order of arrival.
    pub(crate) fn hops(&self, source: PortIdentity, sequence: u16) -> Vec<HopRecord> {
        let about =
            |statement: &&Statement| (statement.source, statement.sequence) == (source, sequence);
        self.0.iter().filter(about).filter_map(hop_stated).collect()
    }

    /// Returns the newest statement about the Sync `received` that `clock` made for `next`.
    fn find(
        &self,
        received: &Received<'_>,
        clock: ClockIdentity,
        next: ClockIdentity,
    ) -> Option<&Statement> {
        let about = |s: &&Statement| {
            (s.clock, s.next, s.source, s.sequence, s.domain)
                == (
                    clock,
                    next,
                    received.source,
                    received.sequence,
                    received.domain,
                )
        };
        self.0.iter().rev().find(about)
    }

    /// Follows the path from the slave to the grandmaster. If the statements of two neighbours
    /// differ, the violation happened between them.
    pub(crate) fn resolve(&self, received: &Received<'_>, limits: &Limits) -> Outcome {
        let views: Vec<_> = received
            .syncs
            .iter()
            .map(|sync| {
                view_of(
                    received.domain,
                    received.source,
                    received.sequence,
                    received.precise_origin,
                    sync.origin,
                )
            })
            .collect();
        let mut below = received.me;
        let mut above = received.upstream;
        let mut expected_out = received.correction;
        let mut view = None;
        for _ in 0..=limits.max_hops {
            let here = Suspect {
                after: Some(above),
                before: below,
            };
            let Some(statement) = self.find(received, above, below) else {
                return Outcome::Missing(here);
            };
            let agrees = match view {
                None => views.contains(&statement.view),
                Some(view) => statement.view == view,
            };
            if !agrees {
                return Outcome::Failed(ViolationKind::Signature, here);
            }
            view = Some(statement.view);
            if statement.correction_out != expected_out {
                return Outcome::Failed(ViolationKind::Correction, here);
            }
            match statement.role {
                Role::Hop {
                    previous,
                    contribution,
                    ..
                } => {
                    if !(limits.min_contribution..=limits.max_contribution).contains(&contribution)
                    {
                        return Outcome::Failed(ViolationKind::Contribution, here);
                    }
                    expected_out = statement.correction_out - contribution;
                    (below, above) = (above, previous);
                }
                Role::Origin {
                    precise_origin,
                    sequence48,
                } => {
                    if statement.clock != received.source.clock
                        || precise_origin != received.precise_origin
                    {
                        return Outcome::Failed(ViolationKind::Signature, here);
                    }
                    let sync = views
                        .iter()
                        .position(|of| *of == statement.view)
                        .unwrap_or(0);
                    // Two-step clocks leave the correction of the Sync zero. No statement covers
                    // it, so the link on which it was altered is unknown.
                    if received.syncs[sync].correction != TimeInterval::ZERO {
                        let path = Suspect {
                            after: None,
                            before: received.me,
                        };
                        return Outcome::Failed(ViolationKind::Correction, path);
                    }
                    return Outcome::Accepted { sync, sequence48 };
                }
            }
        }
        Outcome::Failed(
            ViolationKind::TooLong,
            Suspect {
                after: None,
                before: received.me,
            },
        )
    }
}
