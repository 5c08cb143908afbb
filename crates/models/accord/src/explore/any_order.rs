//! A network that keeps all that was ever said: what of it comes, when, in which order and how
//! often is open.
//!
//! So it may lose, delay, double and reorder, as often as it likes. A host of this network keeps
//! nothing in mind, since it may hear all again: in every state it hears one record of each other
//! host at most, of any age, and then does something ([`Stations::in_any_order`]). Who has
//! heard what is no part of a state. That makes this network's states far fewer than those of
//! a network in order, whose hosts each have heard another part of what the others said.
//!
//! **Nothing is missed** of what a network in order does, with any losses and delays
//! ([`Network::InOrder`](super::search::Network::InOrder)). Take a state there, and the state
//! here with the same hosts but for what they know:
//!
//! - What a host knows there was said, so it can be heard here.
//! - To hear that is *silent* here: the host then knows it, and that is all. For the host there
//!   knows at least as much, and has taken every step that it could. What a step asks for is
//!   that something is known ([`Agreement`](crate::Agreement) has no step that is taken since
//!   something is not), so with less known there are no more steps.
//! - So whatever the host does there next, it does here after it has silently heard what it
//!   knows there. Both come to the same state, and say the same.
//! - A state at rest there is one here in which every host hears the newest of every other
//!   silently.
//!
//! **What is kept of what was said.** For each receiver, each record as the receiver would keep it
//! in mind ([`super::canonical`]). Two more rules make histories alike that differ in nothing but
//! how often somebody let go of the line and took it again, while another heard nothing:
//!
//! - *Supposed.* Who stands in the receiver's pause may have said so before, at every older
//!   ballot, with and without a claim. All of that is added, said or not. What is added to what
//!   may come takes nothing away of what can happen.
//! - *Votes.* A vote of a ballot that a third host has left for a newer one without a vote
//!   can never be counted, since ballots only grow. What is left of it is that its sender stands
//!   at that ballot, which is supposed. A vote whose sender wants the line again counts as the
//!   vote before it, and makes a host that stands go on to the next ballot; where somebody has
//!   said that next ballot already, hearing that does the same.
//!
//! `any_order_has_all_states_of_in_order` compares the two networks. More can happen here than
//! there, so what is wrong here need not be wrong there; nothing is.

use super::HOSTS;
use super::stations::{Event, Local, Outcome, Stations};
use super::table::Set;
use crate::record::{Record, Stage};

impl Stations {
    /// What may come of a host to which all of that may come.
    pub(super) fn in_any_order(&mut self, host: u32, pools: [Vec<u32>; HOSTS]) -> Vec<Outcome> {
        let mut outcomes = Vec::new();
        let mut known = Set::default();
        for before in self.by_silence(host, &pools) {
            let mut all = self.steps(before);
            for (from, record) in records(&pools) {
                if self.host(before).hears(from) {
                    let event = Event::Hear(from as u8, record);
                    all.push((event, self.hear(before, from, record)));
                }
            }
            for (event, local) in all.into_iter().filter(|it| !it.1.is_silent) {
                let host = self.forgetful(local.host);
                let seen = (local.record, local.said, local.closed, local.wrong);
                if known.insert((host, seen, event.misses())) {
                    outcomes.push(Outcome {
                        before,
                        event,
                        next: self.enter(host, pools.clone()),
                        local,
                    });
                }
            }
        }
        outcomes
    }

    /// What a host becomes by silent hearing alone.
    fn by_silence(&mut self, host: u32, pools: &[Vec<u32>; HOSTS]) -> Vec<u32> {
        let mut found = vec![host];
        let mut next = 0;
        while let Some(host) = found.get(next).copied() {
            next += 1;
            for (from, record) in records(pools) {
                let local = self.hear(host, from, record);
                if local.is_silent && !found.contains(&local.host) {
                    found.push(local.host);
                }
            }
        }
        found
    }

    /// Whether a host stays as it is when it hears these of the others.
    pub(super) fn rests_with(&mut self, mut host: u32, newest: [u32; HOSTS]) -> bool {
        if !self.host(host).acts() {
            return true;
        }
        for (from, record) in newest.into_iter().enumerate() {
            if self.host(host).hears(from) {
                let local = self.hear(host, from, record);
                if !local.is_silent {
                    return false;
                }
                host = local.host;
            }
        }
        true
    }

    /// What may be heard of one host, as the receiver keeps it in mind: [`super::canonical`].
    pub(super) fn make_canonical(&mut self, host: u32, from: usize, pool: &mut Vec<u32>) {
        let mut kept = Vec::with_capacity(pool.len());
        let supposed = pool.iter().flat_map(|it| {
            let record = *self.record(*it);
            self.host(host).supposes(&record)
        });
        let supposed: Vec<_> = supposed.collect();
        for record in supposed {
            pool.push(self.number(record));
        }
        pool.sort_unstable();
        pool.dedup();
        for record in pool.iter().copied() {
            let Local {
                is_silent, host, ..
            } = self.hear(host, from, record);
            match self.host(host).knows(from).copied() {
                _ if !is_silent => kept.push(record),
                Some(known) => kept.push(self.number(known)),
                None => {}
            }
        }
        kept.sort_unstable();
        kept.dedup();
        *pool = kept;
    }
}

impl Stations {
    /// Leaves out votes that do nothing that what is supposed does not: see above.
    pub(super) fn drop_votes(&self, pools: &mut [Vec<u32>; HOSTS]) {
        let all = pools.clone();
        let said = |of: usize| all[of].iter().map(|it| self.record(*it));
        for (from, pool) in pools.iter_mut().enumerate() {
            pool.retain(|it| {
                let vote = self.record(*it);
                let Stage::Ready { .. } = vote.stage else {
                    return true;
                };
                let is_newer = |it: &&Record| it.is_beside(vote) && it.ballot > vote.ballot;
                let is_vote = |it: &Record| {
                    matches!(it.stage, Stage::Ready { .. })
                        && it.is_beside(vote)
                        && it.ballot == vote.ballot
                };
                let mut others = (0..HOSTS).filter(|it| *it != from);
                let is_outvoted =
                    others.any(|of| said(of).any(|it| is_newer(&it)) && !said(of).any(is_vote));
                let is_late = (0..HOSTS).any(|of| said(of).any(|it| is_newer(&it)));
                let is_said = said(from).any(|it| is_vote(it) && !it.holds);
                !(is_outvoted || vote.holds && is_said && is_late)
            });
        }
    }
}

impl Record {
    /// Whether both say that a host stands, in the same pause, and with the same hosts heard.
    fn is_beside(&self, other: &Self) -> bool {
        let stands = matches!(self.stage, Stage::Standing { .. } | Stage::Ready { .. });
        stands && self.pause == other.pause && self.silent == other.silent
    }
}

/// All that may come, and of whom.
fn records(pools: &[Vec<u32>; HOSTS]) -> impl Iterator<Item = (usize, u32)> {
    let pools = pools.iter().enumerate();
    pools.flat_map(|(from, pool)| pool.iter().map(move |record| (from, *record)))
}
