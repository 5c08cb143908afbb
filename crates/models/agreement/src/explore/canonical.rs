//! Merging of states that behave alike.
//!
//! Each rule replaces a state by another from which exactly the same events and observations can
//! follow, so a search that visits only the replacements misses nothing. These are the rules with
//! their reasons:
//!
//! - **Old knowledge.** A step uses a record of another host only if it is of the host's current
//!   pause or a later one; while the host runs, only if it is of a later one. Pauses only grow, so
//!   older records are never used again ([`Agreement::without_old_knowledge`]).
//! - **Needless knowledge.** A stopped host uses a record of its pause for three facts: that the
//!   sender is stopped, that the sender holds the line, and the sender's vote, if it has the newest
//!   ballot. The host itself has adopted the newest ballot that it knows. So a vote with an older
//!   ballot counts like Standing, an older ballot like none, and a ceiling like no record. No
//!   stopped host reports the end of the previous pause.
//! - **Old news.** A record that would leave its receiver unchanged contains only facts that the
//!   receiver knows already, or does not use any more. This stays so: the receiver's knowledge of a
//!   host is replaced only by later records of that host, and pauses only grow. So neither the
//!   arrival time of such a record nor its loss has an effect.
//! - **Crashed hosts.** No host queries or observes a crashed host. Its records stay under way.
//! - **Stopped hosts.** A host that has stopped for good receives nothing and does nothing.
//! - **Complete reports.** Each host reports the instant of a pause once and its end once. When all
//!   hosts that can report have done so, no host is left that could contradict.
//! - **Numbers.** Pauses, virtual instants and timeline instants are only compared with each other,
//!   the greatest is taken, and the next one is derived from it. The rules of the world
//!   ([`Host::soonest`], [`Host::close`]) place the instants of each pause 10 after those of the
//!   previous one. So two states that differ only in the number of past pauses, equally on all
//!   hosts, behave alike. Nothing is shifted while a host is still in the first pauses, because
//!   there zero means the start.
//!
//! The rules hold if all hosts take part from the start. A joiner uses more of the old records, so
//! a scope with a joiner is searched state by state. The test `states_that_are_merged_go_on_alike`
//! compares both ways of searching in scopes that are small enough.

use timeloom_time::{Duration, Instant};

use super::world::{Agreed, Agreements};
use crate::agreement::{HostOrder, shift_stop};
use crate::record::{HostRecord, PauseStage, Resumption, Vote};

/// Pause number to which later pauses are reduced: the first at which no instant is zero.
pub(super) const FIRST: u64 = 2;

impl Agreed {
    pub(super) fn shift(&mut self, by: u64, span: Duration) {
        fn numbers<T>(told: &mut Agreements<T>, by: u64, mut what: impl FnMut(&mut T)) {
            for (pause, value, _) in told {
                *pause -= by;
                what(value);
            }
        }
        numbers(&mut self.stands, by, |at| *at = *at - span);
        numbers(&mut self.ends, by, |resumed| resumed.shift(span));
    }
}

impl Resumption {
    pub(crate) fn shift(&mut self, span: Duration) {
        // Zero stands for an unused value, which is not shifted.
        if self.at != Instant::ZERO {
            (self.from, self.at) = (self.from - span, self.at - span);
        }
        shift_stop(&mut self.until, span);
    }
}

impl Vote {
    pub(crate) fn shift(&mut self, span: Duration) {
        self.go = self.go - span;
        shift_stop(&mut self.stop, span);
    }
}

impl HostRecord {
    pub(crate) fn shift(&mut self, by: u64, span: Duration) {
        self.pause -= by;
        match &mut self.stage {
            PauseStage::Joining | PauseStage::Stopped(_) => {}
            PauseStage::Running(resumed) => resumed.shift(span),
            PauseStage::Closing { ceiling, before } => {
                if *ceiling != Instant::ZERO {
                    *ceiling = *ceiling - span;
                }
                before.shift(span);
            }
            PauseStage::Bound { at } | PauseStage::Standing { at } => *at = *at - span,
            PauseStage::Ready { at, vote } => {
                *at = *at - span;
                vote.shift(span);
            }
        }
    }
}

impl HostOrder {
    pub(super) fn shift(&mut self, span: Duration) {
        match self {
            Self::Close { at_least: Some(at) } | Self::Stand { at } | Self::Grant { at } => {
                *at = *at - span;
            }
            Self::Resume(resumed) => resumed.shift(span),
            Self::HoldAlone | Self::Close { at_least: None } | Self::Halt(_) => {}
        }
    }
}
