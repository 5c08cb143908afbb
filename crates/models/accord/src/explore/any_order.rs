//! A network that keeps every record ever sent: which records arrive, when, in which order and how
//! often is open.
//!
//! So it may lose, delay, duplicate and reorder records, as often as it likes. A host of this
//! network remembers nothing, since it may receive every record again: in every state it receives
//! at most one record of each other host, of any age, and then takes a step
//! ([`Stations::in_any_order`]). The hosts' knowledge is not part of a state. That makes this
//! network's states far fewer than those of a network in order, whose hosts each have received
//! different records.
//!
//! **Nothing is missed** of the behaviour of a network in order, with any losses and delays
//! ([`Network::InOrder`](super::search::Network::InOrder)). Take a state there, and the state here
//! with the same hosts apart from their knowledge:
//!
//! - Every record that a host knows there was sent, so it can be received here.
//! - Receiving it is *silent* here: it changes only the host's knowledge. For the host there knows
//!   at least as much, and has taken every step that it could. A step requires that something is
//!   known ([`Agreement`](crate::Agreement) has no step that requires that something is not known),
//!   so with less knowledge there are no more steps.
//! - So any next step of the host there is possible here after it has silently received the records
//!   that it knows there. Both lead to the same state, and send the same record.
//! - A quiescent state there is a state here in which every host silently receives the newest
//!   record of every other.
//!
//! **Records kept.** Each record is kept once for each receiver, in the form in which the receiver
//! would remember it ([`super::canonical`]). Two more rules merge histories that differ only in how
//! often a host released and claimed the line, while another received nothing:
//!
//! - *Supposed.* A host that is stopped in the receiver's pause may have reported so before, at
//!   every older ballot, with and without a claim. All of these records are added, sent or not.
//!   Additional records that may arrive rule out no event.
//! - *Votes.* A vote of a ballot that a third host has left for a newer one without a vote can
//!   never be counted, since ballots only grow. Its remaining content is that its sender is stopped
//!   at that ballot, which is supposed. A vote whose sender claims the line again counts as the
//!   vote before it, and makes a stopped host go on to the next ballot; where a host has sent that
//!   next ballot already, receiving that does the same.
//!
//! `any_order_has_all_states_of_in_order` compares the two networks. More can happen here than
//! there, so a violation here need not be one there; there are none.

use super::HOSTS;
use super::stations::{Event, Local, Outcome, Stations};
use super::table::Set;
use crate::record::{Record, Stage};

impl Stations {
    /// Returns the possible events of a host to which all records of the pools may arrive.
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

    /// Returns the states that a host reaches by silent receiving alone.
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

    /// Returns true if receiving these records leaves the host unchanged.
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

    /// Reduces the records of one host to the form that the receiver remembers:
    /// [`super::canonical`].
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
    /// Removes votes whose effect the supposed records have too: see above.
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
    /// Returns true if both report a host stopped in the same pause, with the same hosts heard.
    fn is_beside(&self, other: &Self) -> bool {
        let stands = matches!(self.stage, Stage::Standing { .. } | Stage::Ready { .. });
        stands && self.pause == other.pause && self.silent == other.silent
    }
}

/// Returns all records that may arrive, with their senders.
fn records(pools: &[Vec<u32>; HOSTS]) -> impl Iterator<Item = (usize, u32)> {
    let pools = pools.iter().enumerate();
    pools.flat_map(|(from, pool)| pool.iter().map(move |record| (from, *record)))
}
