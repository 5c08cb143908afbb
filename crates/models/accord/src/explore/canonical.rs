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
//! - **Old news.** A record of such a pause, still under way, does nothing when it comes, and
//!   nothing but its coming tells it from one that was lost. Not so one that says that its
//!   sender has stopped, wants to join, or does not hear the receiver: these stay.
//! - **The dead.** Nobody asks a crashed host or sees it. What it said stays under way.
//! - **The stopped.** Nothing comes to a host that has stopped for good, and it does nothing.
//! - **What all have said.** Each host says once where a pause is and once how it ended.
//!   When all that can have said so, nobody is left to contradict.
//! - **Numbers.** Pauses, virtual instants and instants of the timeline are compared with each
//!   other, the greatest is taken, and a next one is counted from them. The rules of the world
//!   ([`World::soonest`], [`World::close`]) give each pause the instants of the one before, 10
//!   later. So a state in which all have the same number of pauses behind them that another
//!   has not differs from it by that shift alone. Where somebody is still in the first
//!   pauses nothing is shifted, since zero means the start.
//!
//! That holds where all are there from the start. A joiner asks more of old records: its scope
//! is searched state by state. `states_that_are_merged_go_on_alike` compares both ways of
//! searching in scopes that are small enough.

use timeloom_time::{Duration, Instant};

use super::world::{Agreements, World};
use crate::agreement::Order;
use crate::hosts::Hosts;
use crate::record::{Record, Resumed, Stage};

/// Numbers of pauses are brought down to this one, at which instants are not yet zero.
const FIRST: u64 = 2;

impl World {
    /// Makes it the one that stands for all that go on like it.
    pub(super) fn make_canonical(&mut self) {
        for index in 0..self.hosts.len() {
            let host = &mut self.hosts[index];
            if host.crashed {
                host.bury();
            }
            host.agreement.without_old_knowledge();
        }
        for index in 0..self.hosts.len() {
            self.drop_old_news(index);
        }
        self.forget();
        for host in self.hosts.iter_mut().filter(|host| host.crashed) {
            if host.news.iter().all(|news| *news == 0) {
                host.said.clear();
            }
        }
        let alive = self.hosts.iter().enumerate();
        let alive = alive.filter(|(_, host)| host.acts());
        let alive: Hosts = alive.map(|(index, _)| super::world::id(index)).collect();
        let waits = |who: &Hosts| !alive.without(*who).is_empty();
        self.stands.retain(|(_, _, who)| waits(who));
        self.ends.retain(|(_, _, who)| waits(who));
        let by = self.least_pause().saturating_sub(FIRST);
        if by > 0 {
            self.shift(by);
        }
    }

    fn drop_old_news(&mut self, to: usize) {
        let (stopped, receiver) = {
            let host = &self.hosts[to];
            (!host.acts(), host.agreement.clone())
        };
        for (from, host) in self.hosts.iter_mut().enumerate() {
            while host.news[to] > 0 {
                let next = &host.said[host.said.len() - host.news[to]];
                if !stopped && !receiver.has_no_use_for(super::world::id(from), next) {
                    break;
                }
                host.news[to] -= 1;
            }
        }
    }

    fn least_pause(&self) -> u64 {
        let hosts = self.hosts.iter().filter(|host| !host.crashed);
        let own = hosts.map(|host| host.agreement.least_pause());
        let said = self.hosts.iter().flat_map(|host| host.said.iter());
        let told = |pauses: &mut dyn Iterator<Item = u64>| pauses.min().unwrap_or(u64::MAX);
        let stands = told(&mut self.stands.iter().map(|(pause, ..)| *pause));
        let ends = told(&mut self.ends.iter().map(|(pause, ..)| *pause));
        let all = own.chain(said.map(|record| record.pause));
        all.chain([stands, ends]).min().unwrap_or(0)
    }

    fn shift(&mut self, by: u64) {
        let span = Duration::from_ns(10 * by as i64);
        for host in &mut self.hosts {
            if !host.crashed {
                host.shows = host.shows - span;
                host.agreement.shift(by, span);
            }
            host.said
                .iter_mut()
                .for_each(|record| record.shift(by, span));
            host.orders.iter_mut().for_each(|order| order.shift(span));
        }
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
    fn shift(&mut self, span: Duration) {
        match self {
            Self::Close { at_least: Some(at) } | Self::Stand { at } | Self::Grant { at } => {
                *at = *at - span;
            }
            Self::Resume(resumed) => resumed.shift(span),
            Self::HoldAlone | Self::Close { at_least: None } | Self::Halt(_) => {}
        }
    }
}
