//! Exhaustive search over every order of events of a few hosts.
//!
//! A world consists of hosts, each with its [`Agreement`](crate::Agreement), a clock and programs
//! that hold the line. The possible next events are a list; every entry is tried in every reachable
//! state, each state once. Every record sent may arrive at any time, or never.
//!
//! Three measures make that fast enough: the hosts' knowledge is not part of a state
//! ([`any_order`]), states that behave alike are merged ([`canonical`]), and a step is computed
//! once for each host and the records under way to it ([`stations`]). The first two are compared
//! with searches without them.

mod any_order;
mod canonical;
mod host;
mod search;
mod stations;
mod table;
mod tests;
mod world;

use crate::hosts::HostId;

/// Number of hosts.
const HOSTS: usize = 3;

/// Deliberate flaw, to check that the search finds it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Flaw {
    /// Grants a hold as soon as the host itself is stopped.
    GrantEarly,
    /// Votes for resuming although a host holds the line.
    VoteWhileHeld,
    /// Resumes at the instant that the host itself named.
    OwnGo,
    /// Stops at the host's own ceiling.
    OwnCeiling,
    /// Counts votes that were cast before a new claim.
    OldVotes,
    /// Excludes a silent host without agreement of the others.
    ViewNotAgreed,
}

/// Violation, in words.
type Wrong = String;

fn id(index: usize) -> HostId {
    HostId::new(index as u8).expect("a few hosts")
}
