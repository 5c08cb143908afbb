//! Reduction of an agreement to the parts that can still have an effect, for the exhaustive search.
//! `explore::canonical` gives the reasons.

use timeloom_time::{Dilation, Duration, Instant, Virtual};

use super::{Agreement, Own};
use crate::hosts::{HostId, Hosts};
use crate::record::{HostRecord, PauseStage, Resumption};

impl Agreement {
    /// Returns the greatest pause number whose records no step uses any more; `None` before the
    /// host takes part in the run.
    fn behind(&self) -> Option<u64> {
        match self.stage {
            Own::Joining => None,
            Own::Running | Own::Proposing => Some(self.pause),
            _ => self.pause.checked_sub(1),
        }
    }

    /// Removes all knowledge that no step uses any more, provided that no host joins late.
    pub(crate) fn without_old_knowledge(&mut self) {
        if let Some(behind) = self.behind() {
            self.peers.retain(|_, record| record.pause > behind);
        }
        // A step uses this only for a record that asks to join.
        self.present = Hosts::NONE;
        // The end of the last pause is sent only while the host runs, and until it knows the
        // instant of the next stop.
        let is_said = matches!(self.stage, Own::Running | Own::Proposing | Own::Closing(_));
        if !is_said && self.stage != Own::Joining {
            self.resumed = NOTHING;
        }
        if self.is_stopped() {
            self.peers.clear();
        }
        let (pause, ballot) = (self.pause, self.ballot);
        let silent = self.silent.and(self.members);
        let is_closing = matches!(self.stage, Own::Closing(_));
        let is_past = |record: &HostRecord| match record.stage {
            PauseStage::Closing { .. } => true,
            PauseStage::Bound { .. } | PauseStage::Standing { .. } | PauseStage::Ready { .. } => {
                !is_closing
            }
            _ => false,
        };
        let is_of_old_view = |it: &HostRecord| {
            it.pause == pause && is_past(it) && !silent.without(it.silent).is_empty()
        };
        self.peers.retain(|_, record| !is_of_old_view(record));
        let stands = matches!(self.stage, Own::Standing(_) | Own::Ready(..));
        let old_too = self.keeps_old_votes();
        for record in self.peers.values_mut() {
            if let PauseStage::Closing { .. } | PauseStage::Bound { .. } = record.stage {
                record.holds = false;
            }
            if record.pause != pause {
                continue;
            }
            match record.stage {
                PauseStage::Standing { .. } if stands && record.ballot <= ballot => {
                    record.ballot = 0
                }
                PauseStage::Ready { at, .. } if stands && record.ballot < ballot && !old_too => {
                    record.stage = PauseStage::Standing { at };
                    record.ballot = 0;
                }
                _ => {}
            }
            if let PauseStage::Closing { ceiling, before } = &mut record.stage
                && stands
            {
                *ceiling = Instant::ZERO;
                *before = NOTHING;
            }
        }
    }

    /// Removes all records of other hosts.
    pub(crate) fn know_nothing(&mut self) {
        self.peers.clear();
        self.present = Hosts::NONE;
    }

    /// Returns the last known record of `other`.
    pub(crate) fn knows(&self, other: HostId) -> Option<&HostRecord> {
        self.peers.get(&other)
    }

    /// Returns the records that a host whose latest record is `said` may have sent earlier in the
    /// same pause. While stopped, it may have sent records with the same or an older ballot, with
    /// or without a hold; before that, the records of the stages closing and bound.
    pub(crate) fn supposes(&self, said: &HostRecord) -> Vec<HostRecord> {
        let (PauseStage::Standing { at } | PauseStage::Ready { at, .. }) = said.stage else {
            return Vec::new();
        };
        let is_in_it = match self.stage {
            Own::Closing(_) | Own::Bound(_) | Own::Standing(_) | Own::Ready(..) => true,
            Own::Joining | Own::Running | Own::Proposing | Own::Stopped(_) => false,
        };
        if said.pause != self.pause || !is_in_it {
            return Vec::new();
        }
        let stands = (0..=said.ballot).flat_map(|ballot| [(ballot, false), (ballot, true)]);
        let stands = stands.map(|(ballot, holds)| HostRecord {
            ballot,
            holds,
            stage: PauseStage::Standing { at },
            ..*said
        });
        let mut all: Vec<HostRecord> = stands.collect();
        if matches!(self.stage, Own::Standing(_) | Own::Ready(..)) {
            let (ceiling, before) = (Instant::ZERO, NOTHING);
            all.push(HostRecord {
                ballot: 0,
                holds: false,
                stage: PauseStage::Closing { ceiling, before },
                ..*said
            });
        }
        all
    }

    /// Returns the agreement of this host as it is before joining a run.
    pub(crate) fn anew(&self) -> Self {
        Self::joining(self.me, self.on_silence)
    }

    pub(crate) fn least_pause(&self) -> u64 {
        let peers = self.peers.values().map(|record| record.pause);
        peers.fold(self.pause, u64::min)
    }

    pub(crate) fn shift(&mut self, by: u64, span: Duration) {
        self.pause -= by;
        match &mut self.stage {
            Own::Joining | Own::Running | Own::Proposing | Own::Stopped(_) => {}
            Own::Closing(at) | Own::Bound(at) | Own::Standing(at) => *at = *at - span,
            Own::Ready(at, vote) => {
                *at = *at - span;
                vote.shift(span);
            }
        }
        shift_stop(&mut self.stop, span);
        self.resumed.shift(span);
        self.peers
            .values_mut()
            .for_each(|record| record.shift(by, span));
    }
}

/// Placeholder for a value that is never used.
const NOTHING: Resumption = Resumption {
    from: Instant::ZERO,
    at: Instant::ZERO,
    dilation: Dilation::ONE,
    until: Instant::FAR_FUTURE,
};

/// Moves an instant at which clocks are to stop, if there is one.
pub(crate) fn shift_stop(stop: &mut Instant<Virtual>, span: Duration) {
    if *stop != Instant::FAR_FUTURE {
        *stop = *stop - span;
    }
}
