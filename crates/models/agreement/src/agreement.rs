//! State machine of the agreement. Its inputs are records of other hosts, and its outputs are
//! orders for this host's clock and processes. It contains neither timers nor a network;
//! [`crate::Member`] adds them.
//!
//! A host *holds the line* while one of its programs needs the testbed paused. Every pause passes
//! through five stages. Each stage is a barrier: no host leaves it before all hosts are known to
//! have reached it.
//!
//! 1. *Closing*: each host sets a ceiling for its clock, at or after the clock's reading.
//! 2. *Bound*: T is the latest of the ceilings. No clock has passed T, and none will.
//! 3. *Standing*: the clock shows T and the processes are stopped. Holds are granted.
//! 4. *Ready*: no host holds the line; each host votes, with an instant R at which it can resume, and
//!    with the dilation that it requests, if any.
//! 5. *Running*: all hosts resume from T, at the latest of the instants R, with the greatest of the
//!    requested dilations; without requests, with the dilation before. No clock passes the
//!    earliest of the requested stops.
//!
//! A stop that is requested in a pause is exact: every host knows the instant before its clock
//! runs. A host whose clock has reached the instant claims the line, and the ceilings of all hosts
//! are at that instant. The host that requested the stop does not vote for resuming from there
//! until its request is withdrawn ([`Agreement::postpone_stop`]), so its own claim cannot come too
//! late.
//!
//! There is no master: a result that is computed from all records is the same on every host that
//! computes it. A host that knows a result puts it into its record, and other hosts take it from
//! there. A silent host is excluded once all remaining hosts agree on the set of silent hosts. From
//! the moment a host counts another as silent, it ignores that host's records, so a record of a
//! silent host counts for all hosts or for none.

#[cfg(test)]
mod canonical;
mod steps;

#[cfg(test)]
pub(crate) use canonical::shift_stop;

use std::collections::{BTreeMap, VecDeque};

use timeloom_clock::TimelineTime;
use timeloom_time::{Dilation, Instant, Virtual};

use crate::hosts::{HostId, Hosts};
use crate::record::{Halt, HaltCause, HostRecord, PauseStage, Resumption, Vote};

/// Reaction of the other hosts when a host falls silent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum OnSilence {
    /// All hosts stop for good.
    Stop,
    /// If the other hosts are more than half of all hosts, they go on without the silent host and
    /// release its hold; otherwise they stop for good.
    Release,
}

/// Order for this host's clock and processes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum HostOrder {
    /// Stop the processes now; the clock continues.
    HoldAlone,
    /// Give the clock a ceiling that is no earlier than its reading and no earlier than `at_least`,
    /// and report the ceiling with [`Agreement::closed`].
    Close {
        /// Another host's ceiling; `None` if this host is the first to set a ceiling in this pause.
        at_least: Option<Instant<Virtual>>,
    },
    /// Raise the ceiling to `at`. When the clock has reached it and the processes are stopped, call
    /// [`Agreement::stood`].
    Stand {
        /// Virtual instant at which all hosts stop.
        at: Instant<Virtual>,
    },
    /// All hosts are stopped at `at`, and stay stopped for as long as this host holds the line.
    Grant {
        /// Virtual instant at which all hosts are stopped.
        at: Instant<Virtual>,
    },
    /// Resume at the agreed instant, with the agreed dilation. If the host resumes later, its clock
    /// still counts from that instant.
    Resume(Resumption),
    /// Stop the clock and the processes for good.
    Halt(Halt),
}

/// One host's side of the agreement.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Agreement {
    me: HostId,
    on_silence: OnSilence,
    pause: u64,
    members: Hosts,
    silent: Hosts,
    joiners: Hosts,
    /// Members that have sent a record in which they take part in the run. A member of this set
    /// that asks to join has restarted.
    present: Hosts,
    ballot: u32,
    stage: Own,
    claim: Claim,
    /// Dilation in force on all hosts; in a pause, before the pause.
    dilation: Dilation,
    /// Dilation that a program on this host requests for the end of the present pause.
    requested: Option<Dilation>,
    /// Virtual instant at which a program on this host requests a stop; [`Instant::FAR_FUTURE`] if
    /// there is none.
    stop: Instant<Virtual>,
    /// Virtual and timeline instant at which the last pause ended.
    resumed: Resumption,
    peers: BTreeMap<HostId, HostRecord>,
    orders: VecDeque<HostOrder>,
    #[cfg(test)]
    pub(crate) flaw: Option<crate::explore::Flaw>,
}

/// Stage of this host. Unlike the stage in its record, it distinguishes orders that are not carried
/// out yet.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Own {
    Joining,
    Running,
    /// The ceiling has been ordered, and the caller has not reported it yet.
    Proposing,
    Closing(Instant<Virtual>),
    Bound(Instant<Virtual>),
    Standing(Instant<Virtual>),
    Ready(Instant<Virtual>, Vote),
    Stopped(Halt),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Claim {
    None,
    Wanted,
    Granted,
}

impl Agreement {
    /// Returns a host of a run that has not begun. The clocks of all `members` are stopped at
    /// virtual time zero, and start when every member has [`stood`](Self::stood), with the greatest
    /// `dilation` of all members.
    pub fn new(me: HostId, members: Hosts, on_silence: OnSilence, dilation: Dilation) -> Self {
        let mut agreement = Self::joining(me, on_silence);
        agreement.requested = Some(dilation);
        agreement.members = members.with(me);
        agreement.stage = Own::Bound(Instant::ZERO);
        agreement
            .orders
            .push_back(HostOrder::Stand { at: Instant::ZERO });
        agreement
    }

    /// Returns a host that joins a run under way, and takes part from the run's next resume on.
    pub fn joining(me: HostId, on_silence: OnSilence) -> Self {
        Self {
            me,
            on_silence,
            pause: 0,
            members: Hosts::NONE,
            silent: Hosts::NONE,
            joiners: Hosts::NONE,
            present: Hosts::NONE,
            ballot: 0,
            stage: Own::Joining,
            claim: Claim::None,
            dilation: Dilation::ONE,
            requested: None,
            stop: Instant::FAR_FUTURE,
            resumed: Resumption {
                from: Instant::ZERO,
                at: Instant::ZERO,
                dilation: Dilation::ONE,
                until: Instant::FAR_FUTURE,
            },
            peers: BTreeMap::new(),
            orders: VecDeque::new(),
            #[cfg(test)]
            flaw: None,
        }
    }

    /// Takes the next order out of the queue; `None` if there is none.
    pub fn next_order(&mut self) -> Option<HostOrder> {
        self.orders.pop_front()
    }

    /// Returns this host's current record, for sending to the other hosts.
    pub fn record(&self) -> HostRecord {
        let before = self.resumed;
        let stage = match self.stage {
            Own::Joining => PauseStage::Joining,
            Own::Running | Own::Proposing => PauseStage::Running(before),
            Own::Closing(ceiling) => PauseStage::Closing { ceiling, before },
            Own::Bound(at) => PauseStage::Bound { at },
            Own::Standing(at) => PauseStage::Standing { at },
            Own::Ready(at, vote) => PauseStage::Ready { at, vote },
            Own::Stopped(halt) => PauseStage::Stopped(halt),
        };
        HostRecord {
            pause: self.pause,
            members: self.members,
            silent: self.silent,
            ballot: self.ballot,
            holds: self.claim != Claim::None,
            stage,
        }
    }

    /// Returns the members of the run, including silent ones.
    pub fn members(&self) -> Hosts {
        self.members
    }

    /// Returns the silent members: their records are ignored.
    pub fn silent(&self) -> Hosts {
        self.silent
    }

    /// Requests the line for a local program: all hosts pause, until [`Self::release`]. A host can
    /// have one claim at a time. For `soonest`, see [`Self::heard`].
    pub fn claim(&mut self, soonest: Instant<TimelineTime>) {
        if self.claim != Claim::None {
            return;
        }
        self.claim = Claim::Wanted;
        match self.stage {
            // Another host has requested a pause that has not stopped the clocks yet. This host's
            // claim is granted in the same pause, after the stop.
            Own::Proposing | Own::Closing(_) | Own::Bound(_) => {
                self.orders.push_back(HostOrder::HoldAlone);
            }
            // The new ballot invalidates the votes that were cast before this claim.
            Own::Standing(_) => self.ballot = self.ballot.saturating_add(1),
            _ => {}
        }
        self.advance(soonest);
    }

    /// Releases the line when no local program needs it any more. For `soonest`, see
    /// [`Self::heard`].
    pub fn release(&mut self, soonest: Instant<TimelineTime>) {
        self.claim = Claim::None;
        self.advance(soonest);
    }

    /// Requests that all clocks have this dilation from the end of the present pause on. If other
    /// hosts request others in the same pause, the greatest counts. A later request of this host
    /// replaces an earlier one. Returns false, without effect, unless this host holds the line.
    pub fn dilate(&mut self, dilation: Dilation) -> bool {
        let holds = self.claim == Claim::Granted && !self.is_stopped();
        if holds {
            self.requested = Some(dilation);
        }
        holds
    }

    /// Requests that no clock passes `at` until [`Self::postpone_stop`]. If other hosts request
    /// other instants, the earliest counts. A later request of this host replaces an earlier one. Returns
    /// false, without effect, unless this host holds the line and `at` is after the pause.
    pub fn stop_at(&mut self, at: Instant<Virtual>) -> bool {
        let Own::Standing(now) = self.stage else {
            return false;
        };
        let accepted = self.claim == Claim::Granted && at > now;
        if accepted {
            self.stop = at;
        }
        accepted
    }

    /// Replaces the request of [`Self::stop_at`] by one for a later instant, or, with
    /// [`Instant::FAR_FUTURE`], withdraws it. If the clocks run, they stop at the earlier instant
    /// nevertheless, unless they are paused before. For `soonest`, see [`Self::heard`].
    pub fn postpone_stop(&mut self, to: Instant<Virtual>, soonest: Instant<TimelineTime>) {
        self.stop = self.stop.max(to);
        self.advance(soonest);
    }

    /// Returns the dilation of all clocks; in a pause, the one before the pause.
    pub fn dilation(&self) -> Dilation {
        self.dilation
    }

    /// Returns true if this host requests another dilation for the end of the present pause.
    pub fn changes_dilation(&self) -> bool {
        self.requested.is_some_and(|it| it != self.dilation)
    }

    /// Reports that the ceiling of [`HostOrder::Close`] is in force, and its value.
    pub fn closed(&mut self, ceiling: Instant<Virtual>, soonest: Instant<TimelineTime>) {
        if self.stage == Own::Proposing {
            self.pause = self.pause.saturating_add(1);
            self.ballot = 0;
            self.stage = Own::Closing(ceiling);
            self.advance(soonest);
        }
    }

    /// Reports that clock and processes are stopped, as [`HostOrder::Stand`] demands.
    pub fn stood(&mut self, soonest: Instant<TimelineTime>) {
        if let Own::Bound(at) = self.stage {
            self.stage = Own::Standing(at);
            self.advance(soonest);
        }
    }

    /// Reports that the clock or the processes did not obey an order.
    pub fn failed(&mut self) {
        self.halt(HaltCause::Failed);
    }

    /// Reports that the wired line beside the network is stuck ([`HaltCause::Line`]). All hosts
    /// stop if [`OnSilence::Stop`] is configured; otherwise there is no effect.
    pub fn line_is_stuck(&mut self) {
        if self.on_silence == OnSilence::Stop {
            self.halt(HaltCause::Line);
        }
    }

    /// Processes a record of another host, which must be newer than all its earlier ones. `soonest`
    /// is the earliest timeline instant at which this host could resume if it voted for resuming
    /// now.
    pub fn heard(&mut self, from: HostId, record: HostRecord, soonest: Instant<TimelineTime>) {
        if from == self.me || self.silent.contains(from) || self.is_stopped() {
            return;
        }
        if let PauseStage::Stopped(halt) = record.stage {
            return self.stop(halt);
        }
        let member = self.members.contains(from);
        match (member, record.stage) {
            (true, PauseStage::Joining) if self.present.contains(from) => {
                return self.restarted(from, soonest);
            }
            (true, PauseStage::Joining) => return,
            (false, PauseStage::Joining) if self.stage != Own::Joining => {
                self.joiners = self.joiners.with(from);
                return;
            }
            (false, _) if self.stage != Own::Joining => return,
            _ => {}
        }
        if member && record.members.contains(from) && self.is_left_out_by(&record) {
            return self.halt(HaltCause::Excluded);
        }
        if member {
            self.present = self.present.with(from);
        }
        self.peers.insert(from, record);
        self.advance(soonest);
    }

    /// Reports that `host`, a member, has been silent for too long.
    pub fn lost(&mut self, host: HostId, soonest: Instant<TimelineTime>) {
        if self.is_stopped() || host == self.me || !self.members.contains(host) {
            return;
        }
        match self.on_silence {
            OnSilence::Stop => self.halt(HaltCause::Silent(host)),
            OnSilence::Release => {
                self.silent = self.silent.with(host);
                self.peers.remove(&host);
                if self.alive().count() * 2 <= self.members.count() {
                    return self.halt(HaltCause::Minority);
                }
                self.advance(soonest);
            }
        }
    }

    /// Reports that the other members receive from `host` and this host does not; this host stops.
    pub fn cut_off_from(&mut self, host: HostId) {
        self.halt(HaltCause::Link(host));
    }

    /// Returns true if this host has stopped for good.
    pub fn is_stopped(&self) -> bool {
        matches!(self.stage, Own::Stopped(_))
    }

    /// Returns the members that are not silent: their records count.
    pub fn alive(&self) -> Hosts {
        self.members.without(self.silent)
    }

    /// Returns true if this host and all members that are not silent name the same silent hosts.
    pub fn view_is_agreed(&self) -> bool {
        #[cfg(test)]
        if self.is_flawed(crate::explore::Flaw::ViewNotAgreed) {
            return true;
        }
        self.others().all(|(_, record)| {
            record.is_some_and(|record| {
                record.silent.and(self.members) == self.silent.and(self.members)
            })
        })
    }

    /// Returns the other members that are not silent, each with its last record; `None` if no
    /// record has arrived yet.
    pub fn others(&self) -> impl Iterator<Item = (HostId, Option<&HostRecord>)> {
        let others = self.alive().iter().filter(|host| *host != self.me);
        others.map(|host| (host, self.peers.get(&host)))
    }

    /// Returns the result of a barrier if the record of any host contains it.
    fn told<T>(&self, outcome: impl Fn(&HostRecord) -> Option<T>) -> Option<T> {
        self.others()
            .find_map(|(_, record)| record.and_then(&outcome))
    }

    /// Returns the records of all other members that are not silent; `None` if any of them is not
    /// known to be in this host's current pause.
    fn others_here(&self) -> Option<Vec<&HostRecord>> {
        self.others()
            .map(|(_, record)| record.filter(|record| record.pause == self.pause))
            .collect()
    }

    fn is_left_out_by(&self, record: &HostRecord) -> bool {
        // The others may learn the instant at which the joiner starts later than the joiner does.
        let of_later = record.pause > self.pause
            || (record.pause == self.pause && matches!(record.stage, PauseStage::Running(_)));
        record.silent.contains(self.me)
            || (of_later && !record.members.contains(self.me))
            || record.pause > self.pause.saturating_add(1)
    }

    fn restarted(&mut self, host: HostId, soonest: Instant<TimelineTime>) {
        match self.on_silence {
            OnSilence::Stop => self.halt(HaltCause::Restarted(host)),
            OnSilence::Release => self.lost(host, soonest),
        }
    }

    fn halt(&mut self, why: HaltCause) {
        self.stop(Halt { by: self.me, why });
    }

    fn stop(&mut self, halt: Halt) {
        if !self.is_stopped() {
            self.stage = Own::Stopped(halt);
            self.orders.clear();
            self.orders.push_back(HostOrder::Halt(halt));
        }
    }

    /// Takes every step that the known records permit.
    fn advance(&mut self, soonest: Instant<TimelineTime>) {
        while self.step(soonest) {}
    }

    fn step(&mut self, soonest: Instant<TimelineTime>) -> bool {
        match self.stage {
            Own::Joining => self.join(),
            Own::Running => self.begin(),
            Own::Closing(ceiling) => self.bind(ceiling),
            Own::Standing(at) => self.grant_or_vote(at, soonest),
            Own::Ready(at, vote) => self.go_on(at, vote),
            Own::Proposing | Own::Bound(_) | Own::Stopped(_) => false,
        }
    }
}
