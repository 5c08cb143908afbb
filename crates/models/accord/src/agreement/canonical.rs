//! Parts of an agreement that can still matter: for the search of all orders (`explore::canonical`,
//! which gives the reasons).

use timeloom_time::{Duration, Instant};

use super::{Agreement, Own};
use crate::hosts::{HostId, Hosts};
use crate::record::{Record, Resumed, Stage};

impl Agreement {
    /// Returns the pause up to which no record is used any more; `None` before the host takes part.
    fn behind(&self) -> Option<u64> {
        match self.stage {
            Own::Joining => None,
            Own::Running | Own::Proposing => Some(self.pause),
            _ => self.pause.checked_sub(1),
        }
    }

    /// Forgets all that no step uses any more, if no host joins late.
    pub(crate) fn without_old_knowledge(&mut self) {
        if let Some(behind) = self.behind() {
            self.peers.retain(|_, record| record.pause > behind);
        }
        // Used only for a record that asks to join.
        self.present = Hosts::NONE;
        // Sent only while it runs, and until it knows the instant of the stop.
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
        let is_past = |record: &Record| match record.stage {
            Stage::Closing { .. } => true,
            Stage::Bound { .. } | Stage::Standing { .. } | Stage::Ready { .. } => !is_closing,
            _ => false,
        };
        let is_of_old_view =
            |it: &Record| it.pause == pause && is_past(it) && !silent.without(it.silent).is_empty();
        self.peers.retain(|_, record| !is_of_old_view(record));
        let stands = matches!(self.stage, Own::Standing(_) | Own::Ready(..));
        let old_too = self.keeps_old_votes();
        for record in self.peers.values_mut() {
            if let Stage::Closing { .. } | Stage::Bound { .. } = record.stage {
                record.holds = false;
            }
            if record.pause != pause {
                continue;
            }
            match record.stage {
                Stage::Standing { .. } if stands && record.ballot <= ballot => record.ballot = 0,
                Stage::Ready { at, .. } if stands && record.ballot < ballot && !old_too => {
                    record.stage = Stage::Standing { at };
                    record.ballot = 0;
                }
                _ => {}
            }
            if let Stage::Closing { ceiling, before } = &mut record.stage
                && stands
            {
                *ceiling = Instant::ZERO;
                *before = NOTHING;
            }
        }
    }

    /// Forgets all knowledge of other hosts.
    pub(crate) fn know_nothing(&mut self) {
        self.peers.clear();
        self.present = Hosts::NONE;
    }

    /// Returns the known record of `other`.
    pub(crate) fn knows(&self, other: HostId) -> Option<&Record> {
        self.peers.get(&other)
    }

    /// Returns the records that a member may have sent in this host's pause before this one:
    /// stopped, with the line held or not, at that ballot or an older one; and before that, on its
    /// way to the stop.
    pub(crate) fn supposes(&self, said: &Record) -> Vec<Record> {
        let (Stage::Standing { at } | Stage::Ready { at, .. }) = said.stage else {
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
        let stands = stands.map(|(ballot, holds)| Record {
            ballot,
            holds,
            stage: Stage::Standing { at },
            ..*said
        });
        let mut all: Vec<Record> = stands.collect();
        if matches!(self.stage, Own::Standing(_) | Own::Ready(..)) {
            let (ceiling, before) = (Instant::ZERO, NOTHING);
            all.push(Record {
                ballot: 0,
                holds: false,
                stage: Stage::Closing { ceiling, before },
                ..*said
            });
        }
        all
    }

    /// Returns an agreement that has not begun.
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
            Own::Ready(at, go, _) => (*at, *go) = (*at - span, *go - span),
        }
        self.resumed.shift(span);
        self.peers
            .values_mut()
            .for_each(|record| record.shift(by, span));
    }
}

/// Placeholder for a value that is never used.
const NOTHING: Resumed = Resumed {
    from: Instant::ZERO,
    at: Instant::ZERO,
};
