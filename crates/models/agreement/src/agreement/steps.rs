//! The steps from one stage of a pause to the next.

use timeloom_clock::TimelineTime;
use timeloom_time::{Instant, Virtual};

use super::{Agreement, Claim, HostOrder, Own};
use crate::hosts::Hosts;
use crate::record::{HaltCause, HostRecord, PauseStage, Resumption, Vote};

impl Agreement {
    /// Moves from Running to Proposing, if this host or another requests the line.
    pub(super) fn begin(&mut self) -> bool {
        let ceilings = self.others().filter_map(|(_, record)| {
            let record = record.filter(|record| record.pause > self.pause)?;
            match record.stage {
                PauseStage::Closing { ceiling: at, .. } | PauseStage::Bound { at } => Some(at),
                _ => None,
            }
        });
        let at_least = ceilings.max();
        if self.claim == Claim::None && at_least.is_none() {
            return false;
        }
        self.stage = Own::Proposing;
        if self.claim == Claim::Wanted {
            self.orders.push_back(HostOrder::HoldAlone);
        }
        self.orders.push_back(HostOrder::Close { at_least });
        true
    }

    /// Moves from Closing to Bound, when all ceilings are known or a record contains the instant.
    pub(super) fn bind(&mut self, ceiling: Instant<Virtual>) -> bool {
        let at = self.told(|record| match record.stage {
            _ if record.pause != self.pause => None,
            PauseStage::Bound { at }
            | PauseStage::Standing { at }
            | PauseStage::Ready { at, .. } => Some(at),
            _ => None,
        });
        let at = at.or_else(|| self.latest_ceiling(ceiling));
        let Some(at) = at else { return false };
        self.stage = Own::Bound(at);
        self.orders.push_back(HostOrder::Stand { at });
        true
    }

    fn latest_ceiling(&self, own: Instant<Virtual>) -> Option<Instant<Virtual>> {
        let stages = self.others_here().filter(|_| self.view_is_agreed());
        #[cfg(test)]
        let stages = match self.is_flawed(crate::explore::Flaw::OwnCeiling) {
            true => Some(Vec::new()),
            false => stages,
        };
        let ceilings = stages?.into_iter().map(|record| match record.stage {
            PauseStage::Closing { ceiling, .. } => ceiling,
            _ => own,
        });
        Some(ceilings.fold(own, Instant::max))
    }

    /// Grants the claim of this host in Standing, or moves to Ready with a vote for resuming.
    pub(super) fn grant_or_vote(
        &mut self,
        at: Instant<Virtual>,
        soonest: Instant<TimelineTime>,
    ) -> bool {
        let Some(stages) = self.others_here().filter(|_| self.view_is_agreed()) else {
            return false;
        };
        let newest = stages.iter().map(|record| record.ballot).max();
        let newest = newest.unwrap_or(0).max(self.ballot);
        let all_stand = stages.iter().all(|record| {
            matches!(
                record.stage,
                PauseStage::Standing { .. } | PauseStage::Ready { .. }
            )
        });
        // Another host that has voted already claims the line again: its claim must be granted
        // first.
        let regrets = stages.iter().any(|record| {
            record.holds
                && record.ballot == newest
                && matches!(record.stage, PauseStage::Ready { .. })
        });
        let held = self.claim != Claim::None || stages.iter().any(|record| record.holds);
        #[cfg(test)]
        let all_stand = all_stand || self.is_flawed(crate::explore::Flaw::GrantEarly);
        #[cfg(test)]
        let held = held && !self.is_flawed(crate::explore::Flaw::VoteWhileHeld);
        self.ballot = newest.saturating_add(u32::from(regrets));
        if !all_stand {
            return false;
        }
        if self.claim == Claim::Wanted {
            self.claim = Claim::Granted;
            self.orders.push_back(HostOrder::Grant { at });
        }
        // A stop that this host requested is reached, and its claim has not been made yet.
        let is_due = self.stop <= at;
        #[cfg(test)]
        let is_due = is_due && !self.is_flawed(crate::explore::Flaw::VoteAtStop);
        if held || is_due {
            return false;
        }
        let vote = Vote {
            go: soonest,
            joiners: self.joiners.without(self.members),
            dilation: self.requested,
            stop: self.stop,
        };
        self.stage = Own::Ready(at, vote);
        true
    }

    /// Moves from Ready to Running, when all hosts are ready or a record contains the end of the
    /// pause.
    pub(super) fn go_on(&mut self, at: Instant<Virtual>, vote: Vote) -> bool {
        if let Some((resumed, members)) = self.told(|record| self.ended(record)) {
            self.run(resumed, members);
            return true;
        }
        let Some(stages) = self.others_here().filter(|_| self.view_is_agreed()) else {
            return false;
        };
        let newest = stages.iter().map(|record| record.ballot).max();
        if newest.is_some_and(|newest| newest > self.ballot) && !self.keeps_old_votes() {
            self.stage = Own::Standing(at);
            self.ballot = newest.unwrap_or(self.ballot);
            if self.claim == Claim::Wanted {
                self.ballot = self.ballot.saturating_add(1);
            }
            return true;
        }
        let votes: Option<Vec<_>> = stages
            .into_iter()
            .map(|record| match record.stage {
                PauseStage::Ready { vote, .. }
                    if record.ballot == self.ballot || self.keeps_old_votes() =>
                {
                    Some(vote)
                }
                _ => None,
            })
            .collect();
        let Some(votes) = votes else { return false };
        let all = votes.into_iter().fold(vote, Vote::and);
        let resumed = Resumption {
            from: at,
            at: all.go,
            dilation: all.dilation.unwrap_or(self.dilation),
            until: all.stop,
        };
        #[cfg(test)]
        let resumed = self.with_flaw(resumed, vote);
        self.run(resumed, self.alive().or(all.joiners));
        true
    }

    /// Returns the end of this host's current pause and the members after it, if `record` contains
    /// them.
    fn ended(&self, record: &HostRecord) -> Option<(Resumption, Hosts)> {
        match record.stage {
            PauseStage::Running(resumed) if record.pause == self.pause => {
                Some((resumed, record.members))
            }
            PauseStage::Closing { before, .. } if record.pause == self.pause.saturating_add(1) => {
                Some((before, record.members))
            }
            _ => None,
        }
    }

    fn run(&mut self, resumed: Resumption, members: Hosts) {
        // Records of this pause and earlier ones are no longer needed.
        let pause = self.pause;
        self.peers
            .retain(|host, record| members.contains(*host) && record.pause > pause);
        self.members = members;
        self.silent = self.silent.and(members);
        self.joiners = self.joiners.without(members);
        self.present = self.present.and(members);
        self.resumed = resumed;
        self.dilation = resumed.dilation;
        // It was part of this host's vote, so it counted.
        self.requested = None;
        self.ballot = 0;
        self.stage = Own::Running;
        self.orders.push_back(HostOrder::Resume(resumed));
        if !members.contains(self.me) {
            self.halt(HaltCause::Excluded);
        }
    }

    /// Moves from Joining to Running, once a member's record lists this host as a member.
    pub(super) fn join(&mut self) -> bool {
        let mine = |record: &&HostRecord| record.members.contains(self.me);
        let told = self
            .peers
            .values()
            .filter(mine)
            .find_map(|record| match record.stage {
                PauseStage::Running(resumed) => Some((record.pause, resumed, record.members)),
                PauseStage::Closing { before, .. } => {
                    Some((record.pause.saturating_sub(1), before, record.members))
                }
                _ => None,
            });
        let Some((pause, resumed, members)) = told else {
            return false;
        };
        self.pause = pause;
        self.run(resumed, members);
        true
    }

    #[cfg(not(test))]
    const fn keeps_old_votes(&self) -> bool {
        false
    }
}

#[cfg(test)]
impl Agreement {
    pub(super) fn is_flawed(&self, flaw: crate::explore::Flaw) -> bool {
        self.flaw == Some(flaw)
    }

    /// Returns the end of a pause as this host computes it, from its own vote, if it has a flaw.
    fn with_flaw(&self, resumed: Resumption, own: Vote) -> Resumption {
        use crate::explore::Flaw;
        match self.flaw {
            Some(Flaw::OwnGo) => Resumption {
                at: own.go,
                ..resumed
            },
            Some(Flaw::OwnDilation) => Resumption {
                dilation: own.dilation.unwrap_or(self.dilation),
                ..resumed
            },
            Some(Flaw::OwnStop) => Resumption {
                until: own.stop,
                ..resumed
            },
            Some(Flaw::LateDilation) if self.me.number() == 0 => Resumption {
                dilation: self.dilation,
                ..resumed
            },
            _ => resumed,
        }
    }

    pub(super) fn keeps_old_votes(&self) -> bool {
        self.is_flawed(crate::explore::Flaw::OldVotes)
    }
}
