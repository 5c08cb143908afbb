//! Merging of states that behave alike.
//!
//! Each rule replaces a state by one from which exactly the same can happen and be observed, so a
//! search that visits only the replacements misses nothing. The reasons, rule by rule:
//!
//! - **Old knowledge.** A step tests another's record only for being of the own pause or of a later
//!   one; while a host runs, only for a later one. Pauses only grow, so older records are never
//!   used again ([`Agreement::without_old_knowledge`]).
//! - **Needless knowledge.** A stopped host uses a record of its pause for three facts: the other
//!   is stopped, the other holds the line, and its vote, if that is of the newest ballot. It has
//!   taken over any newer ballot that it knows. So an older vote counts as standing, an older
//!   ballot as none, and a ceiling as nothing. No stopped host reports the end of the previous
//!   pause.
//! - **Old news.** A record that would leave its receiver unchanged contains facts that the
//!   receiver knows already, or does not use any more. Both stay so: its knowledge of a host is
//!   replaced only by later records of that host, and pauses only grow. So neither the time of the
//!   record's arrival nor its loss matters.
//! - **Crashed hosts.** No host queries or observes a crashed host. Its records stay under way.
//! - **Stopped hosts.** Nothing arrives at a host that has stopped for good, and it does nothing.
//! - **Complete reports.** Each host reports once the instant of a pause and once its end. When all
//!   hosts that can have reported have done so, no host is left to contradict.
//! - **Numbers.** Pauses, virtual instants and instants of the timeline are compared with each
//!   other, the greatest is taken, and the next one is counted from them. The rules of the world
//!   ([`Host::soonest`], [`Host::close`]) give each pause the instants of the one before, 10 later.
//!   So a state in which all hosts have the same number of additional past pauses differs from
//!   another by that shift alone. While a host is still in the first pauses nothing is shifted,
//!   since zero means the start.
//!
//! That holds if all hosts are there from the start. A joiner uses more of old records: its scope
//! is searched state by state. `states_that_are_merged_go_on_alike` compares both ways of searching
//! in scopes that are small enough.

use timeloom_time::{Duration, Instant};

use super::world::{Agreed, Agreements};
use crate::agreement::Order;
use crate::record::{Record, Resumed, Stage};

/// Number to which pauses are reduced, at which instants are not yet zero.
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

impl Resumed {
    pub(crate) fn shift(&mut self, span: Duration) {
        // An unused value stays zero.
        if self.at != Instant::ZERO {
            (self.from, self.at) = (self.from - span, self.at - span);
        }
    }
}

impl Record {
    pub(crate) fn shift(&mut self, by: u64, span: Duration) {
        self.pause -= by;
        match &mut self.stage {
            Stage::Joining | Stage::Stopped(_) => {}
            Stage::Running(resumed) => resumed.shift(span),
            Stage::Closing { ceiling, before } => {
                if *ceiling != Instant::ZERO {
                    *ceiling = *ceiling - span;
                }
                before.shift(span);
            }
            Stage::Bound { at } | Stage::Standing { at } => *at = *at - span,
            Stage::Ready { at, go, .. } => (*at, *go) = (*at - span, *go - span),
        }
    }
}

impl Order {
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
