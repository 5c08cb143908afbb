//! What of an agreement can still matter: for the search of all orders (`explore::canonical`,
//! which says why).

use timeloom_time::{Duration, Instant};

use super::{Agreement, Own};
use crate::hosts::{HostId, Hosts};
use crate::record::{Record, Resumed, Stage};

impl Agreement {
    /// Up to this pause, nobody's record is asked for any more; none, before it takes part.
    fn behind(&self) -> Option<u64> {
        match self.stage {
            Own::Joining => None,
            Own::Running | Own::Proposing => Some(self.pause),
            _ => self.pause.checked_sub(1),
        }
    }

    /// Forgets what no step asks for any more, where nobody comes late.
    pub(crate) fn without_old_knowledge(&mut self) {
        if let Some(behind) = self.behind() {
            self.peers.retain(|_, record| record.pause > behind);
        }
        // Asked only of a record that wants to join.
        self.present = Hosts::NONE;
        // Said only while it runs, and until it knows where it will stand.
        let is_said = matches!(self.stage, Own::Running | Own::Proposing | Own::Closing(_));
        if !is_said && self.stage != Own::Joining {
            self.resumed = NOTHING;
        }
        if self.is_stopped() {
            self.peers.clear();
        }
        let (pause, ballot) = (self.pause, self.ballot);
        let stands = matches!(self.stage, Own::Standing(_) | Own::Ready(..));
        let old_too = self.keeps_old_votes();
        let known = self.peers.values_mut();
        for record in known.filter(|record| record.pause == pause) {
            match record.stage {
                Stage::Closing { .. } | Stage::Bound { .. } => record.holds = false,
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

    /// Whether that record does nothing here, now or later.
    pub(crate) fn has_no_use_for(&self, from: HostId, record: &Record) -> bool {
        let Some(behind) = self.behind() else {
            return false;
        };
        let says_more = matches!(record.stage, Stage::Joining | Stage::Stopped(_));
        record.pause <= behind
            && !says_more
            && self.members.contains(from)
            && record.members.contains(self.me)
            && !record.silent.contains(self.me)
    }

    /// One that knows nothing.
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

/// In the place of what is never asked for.
const NOTHING: Resumed = Resumed {
    from: Instant::ZERO,
    at: Instant::ZERO,
};
