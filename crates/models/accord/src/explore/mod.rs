//! Every order of events of a few hosts, tried out.
//!
//! A world of hosts, each with its [`Agreement`](crate::Agreement), a clock and programs that
//! hold the line. What may happen next is a list; every entry is tried in every state
//! that can be reached, each state once. Whatever was said may come at any time, or never.
//!
//! What makes that quick enough: who has heard what is no part of a state ([`any_order`]),
//! states that go on alike are one ([`canonical`]), and a step is worked out once for each host
//! and what is under way to it ([`stations`]). The first two are compared with searches without.

mod any_order;
mod canonical;
mod host;
mod search;
mod stations;
mod table;
mod tests;
mod world;

use crate::hosts::HostId;

/// How many hosts there are.
const HOSTS: usize = 3;

/// A mistake built in, to see that the search finds it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Flaw {
    /// Grants a hold when it stands itself.
    GrantEarly,
    /// Votes for going on although somebody holds.
    VoteWhileHeld,
    /// Goes on at the instant that it named itself.
    OwnGo,
    /// Stands at its own ceiling.
    OwnCeiling,
    /// Counts votes that were cast before somebody held again.
    OldVotes,
    /// Leaves a silent host out without asking the others.
    ViewNotAgreed,
}

/// What is wrong, in words.
type Wrong = String;

fn id(index: usize) -> HostId {
    HostId::new(index as u8).expect("a few hosts")
}
