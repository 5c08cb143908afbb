//! Exhaustive search over every order of events of a few hosts.
//!
//! A world consists of hosts, each with its [`Agreement`](crate::Agreement), a clock, and programs
//! that hold the line. Every state of the world has a list of possible next events. The search
//! tries each of these events in every reachable state, and visits each state once. Every record
//! that was sent may arrive at any time, or never.
//!
//! Three measures make the search fast enough: the hosts' knowledge is not part of a state
//! ([`any_order`]), states that behave alike are merged ([`canonical`]), and a step is computed
//! once for each host with the records that are under way to it ([`stations`]). The first two
//! measures are checked against searches without them.

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

/// Deliberate error in the protocol, to check that the search finds it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Flaw {
    /// A hold is granted as soon as the host itself is stopped.
    GrantEarly,
    /// A host votes for resuming although a host holds the line.
    VoteWhileHeld,
    /// A host resumes at the instant that it named itself, not at the latest instant of all.
    OwnGo,
    /// A host stops at its own ceiling, not at the latest ceiling of all.
    OwnCeiling,
    /// Votes count although they were cast before a new claim.
    OldVotes,
    /// A host excludes a silent host without the agreement of the others.
    ViewNotAgreed,
    /// A host resumes with the dilation that it requested itself, not with the greatest of all.
    OwnDilation,
    /// A host runs until the stop that it requested itself, not until the earliest of all.
    OwnStop,
    /// A host votes for resuming at the stop that it requested, before it has claimed the line.
    VoteAtStop,
    /// The first host changes its dilation a pause late, or never.
    LateDilation,
}

/// Description of a violated invariant.
type Wrong = String;

fn id(index: usize) -> HostId {
    HostId::new(index as u8).expect("a few hosts")
}
