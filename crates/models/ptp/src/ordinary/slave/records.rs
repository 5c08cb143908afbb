//! Records of the Syncs whose processing has not ended.
//!
//! This module has no influence on the processing of a Sync. A record collects what the slave
//! decides, and is reported when nothing about its Sync is pending any more.

use std::collections::VecDeque;

use timeloom_time::Instant;
use timeloom_wire::message::Body;
use timeloom_wire::{Flags, Message, PortIdentity, SyncVerdict, TimeInterval, Timestamp};

use super::matching::KEEP;
use super::steering::Sample;
use crate::outbox::Outbox;
use crate::security::VerificationFailure;
use crate::{ClockReport, HopRecord, Local, Stamp, SyncReport};

#[derive(Debug, Default)]
pub(super) struct Records(VecDeque<Open>);

#[derive(Debug)]
struct Open {
    since: Instant<Local>,
    sync: SyncReport,
    /// Sum of the corrections in the messages received so far.
    correction: TimeInterval,
    /// True if the Sync was measured, or certainly will not be.
    decided: bool,
}

/// Greatest number of unreported records. A flood displaces the oldest.
const MAX_OPEN: usize = 64;

impl Records {
    /// Records a received Sync or Follow_Up, of any master.
    pub(super) fn note(
        &mut self,
        now: Instant<Local>,
        message: &Message<'_>,
        stamp: Stamp,
        out: &mut Outbox,
    ) {
        let header = &message.header;
        match message.body {
            Body::Sync(body) => {
                let one_step = !header.flags.has(Flags::TWO_STEP);
                let open = self.begin(now, header.source, header.sequence_id, out);
                if open.sync.record.arrival.is_none() {
                    open.sync.record.arrival = Some(stamp);
                    open.add(header.correction, one_step.then_some(body.origin));
                }
            }
            Body::FollowUp(body) => {
                let open = self.begin(now, header.source, header.sequence_id, out);
                if open.sync.record.origin.is_none() {
                    open.add(header.correction, Some(body.precise_origin));
                }
            }
            _ => {}
        }
    }

    fn begin(
        &mut self,
        now: Instant<Local>,
        source: PortIdentity,
        sequence: u16,
        out: &mut Outbox,
    ) -> &mut Open {
        let at = self.0.iter().rposition(|open| open.is_of(source, sequence));
        let at = at.unwrap_or_else(|| {
            if self.0.len() == MAX_OPEN {
                self.close(0, out);
            }
            self.0.push_back(Open {
                since: now,
                sync: SyncReport::new(source, sequence),
                correction: TimeInterval::ZERO,
                decided: false,
            });
            self.0.len() - 1
        });
        &mut self.0[at]
    }

    fn find(&mut self, source: PortIdentity, sequence: u16) -> Option<&mut Open> {
        let mut newest_first = self.0.iter_mut().rev();
        newest_first.find(|open| open.is_of(source, sequence))
    }

    /// Records the contributions that the hops of a chain have signed.
    pub(super) fn judged(&mut self, source: PortIdentity, sequence: u16, hops: &[HopRecord]) {
        if let Some(open) = self.find(source, sequence) {
            open.sync.hops = hops.to_vec();
        }
    }

    /// Adds a violation to the record of its Sync; returns false if there is no such record.
    pub(super) fn violated(&mut self, failure: &VerificationFailure) -> bool {
        let open = self.find(failure.source, failure.sequence);
        let failures = open.map(|open| &mut open.sync.failures);
        failures.is_some_and(|failures| {
            failures.push((failure.reason, failure.suspect));
            true
        })
    }

    /// Records that a Sync of `source` was measured. `used` is false if its arrival deviates too
    /// far from the prediction. A clock that is not adjusted rejects such a Sync too.
    pub(super) fn measured(
        &mut self,
        source: PortIdentity,
        sample: &Sample,
        path_delay: TimeInterval,
        used: bool,
    ) {
        let Some(open) = self.find(source, sample.sequence) else {
            return;
        };
        open.decided = true;
        let record = &mut open.sync.record;
        record.arrival = Some(sample.arrived);
        record.origin = Some(sample.origin);
        record.correction = Some(sample.correction);
        record.offset = Some(sample.forward - path_delay);
        record.path_delay = Some(path_delay);
        record.verdict = match (used, sample.authenticated) {
            (false, _) => SyncVerdict::Rejected,
            (true, true) => SyncVerdict::Accepted,
            (true, false) => SyncVerdict::Unsigned,
        };
    }

    /// Reports the records that are complete: those with a decision, and those whose Sync has
    /// nothing pending. Messages of a master that is not followed are never pending.
    pub(super) fn settle(
        &mut self,
        now: Instant<Local>,
        parent: Option<PortIdentity>,
        waits: impl Fn(u16) -> bool,
        hops_of: impl Fn(PortIdentity, u16) -> Vec<HopRecord>,
        out: &mut Outbox,
    ) {
        let is_done = |open: &Open| {
            let record = &open.sync.record;
            let is_whole = record.arrival.is_some() && record.origin.is_some();
            match parent == Some(open.sync.source) {
                _ if open.decided => true,
                true => !waits(record.sequence),
                false => is_whole || now - open.since > KEEP,
            }
        };
        while let Some(at) = self.0.iter().position(is_done) {
            let sync = &mut self.0[at].sync;
            if sync.hops.is_empty() {
                sync.hops = hops_of(sync.source, sync.record.sequence);
            }
            self.close(at, out);
        }
    }

    /// Reports all records, because the clock ends.
    pub(super) fn end(&mut self, out: &mut Outbox) {
        while !self.0.is_empty() {
            self.close(0, out);
        }
    }

    fn close(&mut self, at: usize, out: &mut Outbox) {
        let Some(Open {
            mut sync, decided, ..
        }) = self.0.remove(at)
        else {
            return;
        };
        if !decided && !sync.failures.is_empty() {
            sync.record.verdict = SyncVerdict::Rejected;
        }
        out.report(ClockReport::Sync(Box::new(sync)));
    }
}

impl Open {
    fn is_of(&self, source: PortIdentity, sequence: u16) -> bool {
        self.sync.source == source && self.sync.record.sequence == sequence
    }

    /// Stores correction and origin; the message that arrived last determines both.
    fn add(&mut self, correction: TimeInterval, origin: Option<Timestamp>) {
        self.correction += correction;
        let record = &mut self.sync.record;
        record.origin = record.origin.or(origin);
        record.correction = record.origin.map(|_| self.correction);
    }
}
