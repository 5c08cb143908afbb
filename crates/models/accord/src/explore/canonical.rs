//! States that go on in the same way are one: what makes them so.
//!
//! Each rule replaces a state by one from which just the same can happen and be seen, so a
//! search that visits only the replacements misses nothing. Why, rule by rule:
//!
//! - **Old knowledge.** A step asks of another's record only whether it is of the own pause or
//!   of a later one; while a host runs, only of a later one. Pauses only grow, so what is older
//!   is never asked again ([`Agreement::without_old_knowledge`]).
//! - **Needless knowledge.** A host that stands asks of a record of its pause whether the other
//!   stands, whether it holds, and for its vote if that is of the newest ballot. It has taken
//!   over any newer ballot that it knows. So an older vote counts as standing, an older ballot
//!   as none, and a ceiling as nothing. How the pause before ended is said by nobody who stands.
//! - **Old news.** A record that would leave its receiver just as it is says what that one knows
//!   already, or what it asks for no more. Both stay so: what it knows of a host is replaced only
//!   by what that host said later, and pauses only grow. So when it comes does not matter, nor
//!   whether.
//! - **The dead.** Nobody asks a crashed host or sees it. What it said stays under way.
//! - **The stopped.** Nothing comes to a host that has stopped for good, and it does nothing.
//! - **What all have said.** Each host says once where a pause is and once how it ended.
//!   When all that can have said so, nobody is left to contradict.
//! - **Numbers.** Pauses, virtual instants and instants of the timeline are compared with each
//!   other, the greatest is taken, and a next one is counted from them. The rules of the world
//!   ([`Host::soonest`], [`Host::close`]) give each pause the instants of the one before, 10
//!   later. So a state in which all have the same number of pauses behind them that another
//!   has not differs from it by that shift alone. Where somebody is still in the first
//!   pauses nothing is shifted, since zero means the start.
//!
//! That holds where all are there from the start. A joiner asks more of old records: its scope
//! is searched state by state. `states_that_are_merged_go_on_alike` compares both ways of
//! searching in scopes that are small enough.

use timeloom_time::{Duration, Instant};

use super::world::{Agreed, Agreements};
use crate::agreement::Order;
use crate::record::{Record, Resumed, Stage};

/// Numbers of pauses are brought down to this one, at which instants are not yet zero.
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
        // What is never asked for stays nothing.
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
