//! Network that keeps every record ever sent, and may deliver any of them at any time, in any order
//! and any number of times.
//!
//! Such a network can lose, delay, duplicate and reorder records without limit. A host in it
//! remembers nothing, since it may receive every record again: in every state it receives at most
//! one record of each other host, of any age, and then takes a step ([`Stations::in_any_order`]).
//! The hosts' knowledge is not part of a state. The unordered network therefore has far fewer
//! states than an ordered one, in which hosts have received different records.
//!
//! **Nothing is missed** of the behaviour of an ordered network with any losses and delays
//! ([`Network::InOrder`](super::search::Network::InOrder)). Take a state of the ordered network,
//! and the state of the unordered network with the same hosts apart from their knowledge:
//!
//! - Every record that a host knows in the ordered network was sent, so it can be received in the
//!   unordered one.
//! - Receiving that record is *silent* in the unordered network: it changes only the host's
//!   knowledge. In the ordered network the host knows at least as much, and has taken every step
//!   that it could. A step requires that something is known ([`Agreement`](crate::Agreement) has no
//!   step that requires that something is not known), so a host with less knowledge has no
//!   additional steps.
//! - So every next step of the host in the ordered network is possible in the unordered one, after
//!   the host has silently received the records that it knows in the ordered one. Both steps lead
//!   to the same state and send the same record.
//! - A quiescent state of the ordered network corresponds to a state of the unordered one in which
//!   every host silently receives the newest record of every other host.
//!
//! **Records kept.** Each record is kept once for each receiver, in the form in which the receiver
//! would remember it ([`super::canonical`]). Two more rules merge histories that differ only in how
//! often a host released and claimed the line while another host received nothing:
//!
//! - *Supposed records.* A host that is stopped in the receiver's pause may have reported so
//!   before, at every older ballot, with and without a claim. All of these records are added, sent
//!   or not. Additional records cannot rule out any event.
//! - *Votes.* A vote can never be counted if a third host has left its ballot for a newer one
//!   without a vote, since ballots only grow. The only other content of the vote is that its sender
//!   is stopped at that ballot, and this record is supposed anyway. A vote whose sender claims the
//!   line again counts like the vote before it, and makes a stopped host move to the next ballot;
//!   if a host has sent a record of that next ballot already, receiving that record has the same
//!   effect.
//!
//! The test `any_order_has_all_states_of_in_order` compares the two networks. The unordered network
//! permits more behaviour than the ordered one, so a violation in it need not be a violation in the
//! ordered one; no violations occur in either.

use super::HOSTS;
use super::stations::{Event, Local, Outcome, Stations};
use super::table::Set;
use crate::record::{HostRecord, PauseStage};

impl Stations {
    /// Returns the possible events of `host`, if every record of `pools` may arrive.
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

    /// Returns the states that a host reaches by receiving records silently and nothing else.
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

    /// Returns true if no event is possible at the host, or if receiving these records changes
    /// nothing but its knowledge.
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

    /// Adds the supposed records to those of host `from`, and replaces each record by the form that
    /// the receiver `host` remembers: see [`super::canonical`].
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
    /// Removes votes whose effect the supposed records have too; the module's documentation
    /// explains it.
    pub(super) fn drop_votes(&self, pools: &mut [Vec<u32>; HOSTS]) {
        let all = pools.clone();
        let said = |of: usize| all[of].iter().map(|it| self.record(*it));
        for (from, pool) in pools.iter_mut().enumerate() {
            pool.retain(|it| {
                let vote = self.record(*it);
                let PauseStage::Ready { .. } = vote.stage else {
                    return true;
                };
                let is_newer = |it: &&HostRecord| it.is_beside(vote) && it.ballot > vote.ballot;
                let is_vote = |it: &HostRecord| {
                    matches!(it.stage, PauseStage::Ready { .. })
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

impl HostRecord {
    /// Returns true if both records report a host stopped in the same pause, with the same members
    /// and silent hosts.
    fn is_beside(&self, other: &Self) -> bool {
        let stands = matches!(
            self.stage,
            PauseStage::Standing { .. } | PauseStage::Ready { .. }
        );
        stands && self.pause == other.pause && self.silent == other.silent
    }
}

/// Iterates over all records that may arrive, each with the index of its sender.
fn records(pools: &[Vec<u32>; HOSTS]) -> impl Iterator<Item = (usize, u32)> {
    let pools = pools.iter().enumerate();
    pools.flat_map(|(from, pool)| pool.iter().map(move |record| (from, *record)))
}
