//! Host of a searched world: its agreement, its clock, and a program that holds the line.

use std::collections::VecDeque;

use timeloom_clock::TimelineTime;
use timeloom_time::{Dilation, Duration, Instant, Virtual};

use super::search::Scope;
use super::{HOSTS, Wrong, id};
use crate::agreement::{Agreement, HostOrder, shift_stop};
use crate::hosts::Hosts;
use crate::record::{HostRecord, PauseStage, Resumption};

/// Event at a host other than the arrival of a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Step {
    /// A program requests the line.
    Claim,
    /// The program releases the line, after it has requested another dilation if hosts do that in
    /// this scope.
    Release,
    /// The host sets its ceiling, with its clock this far beyond the required minimum.
    Close(i8),
    /// The clock reaches the ceiling, or the host resumes.
    Act,
    /// The clock has reached the agreed stop, and the host requests the line.
    Reach,
    /// The host counts this crashed host as silent.
    Lost(u8),
}

/// Agreed instant that a host reports, to be compared with other hosts' reports.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum ReportedInstant {
    /// Pause number, and virtual instant at which all hosts stop in that pause.
    Stands(u64, Instant<Virtual>),
    /// Pause number, and instants at which that pause ends.
    Ended(u64, Resumption),
}

/// Result of a step, apart from the host's new record.
#[derive(Debug, Default)]
pub(super) struct Done {
    pub(super) said: Vec<ReportedInstant>,
    /// The host has set its ceiling, so some host must be requesting the line.
    pub(super) closed: bool,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Host {
    index: usize,
    agreement: Agreement,
    /// Orders of the agreement that have not been carried out yet.
    orders: VecDeque<HostOrder>,
    requests: usize,
    asks: bool,
    holds: bool,
    runs: bool,
    shows: Instant<Virtual>,
    crashed: bool,
    dilates: bool,
    /// Dilation that the program has requested for the end of the present pause.
    requested: Option<Dilation>,
    stops: bool,
    /// True if the request for the line is due to a program, not to a stop.
    is_program: bool,
    /// Instant of the stop that a program has requested; [`Instant::FAR_FUTURE`] if there is none.
    stop: Instant<Virtual>,
    /// Agreed instant that the clock does not pass before the next pause.
    until: Instant<Virtual>,
}

/// Properties of a host that are visible to the world around it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Facts {
    pub(super) crashed: bool,
    pub(super) stopped: bool,
    pub(super) waits: bool,
    pub(super) asks: bool,
    pub(super) holds: bool,
    pub(super) runs: bool,
    pub(super) shows: Instant<Virtual>,
    pub(super) members: Hosts,
    pub(super) pause: u64,
    /// Number of the host's record in the table of records.
    pub(super) record: u32,
    /// Smallest pause number among the records that the host knows and those under way to it.
    pub(super) least: u64,
}

impl Host {
    pub(super) fn new(index: usize, scope: &Scope) -> Self {
        let joiner = scope.joins.then_some(HOSTS - 1);
        let members: Hosts = (0..HOSTS)
            .filter(|it| Some(*it) != joiner)
            .map(id)
            .collect();
        let mut agreement = match Some(index) == joiner {
            true => Agreement::joining(id(index), scope.on_silence),
            false => Agreement::new(id(index), members, scope.on_silence, Dilation::ONE),
        };
        agreement.flaw = scope.flaw;
        Self {
            index,
            agreement,
            orders: VecDeque::new(),
            requests: scope.requests[index],
            asks: false,
            holds: false,
            runs: false,
            shows: Instant::ZERO,
            crashed: false,
            dilates: scope.dilates[index],
            requested: None,
            stops: scope.stops[index],
            is_program: false,
            stop: Instant::FAR_FUTURE,
            until: Instant::FAR_FUTURE,
        }
    }

    pub(super) fn record(&self) -> HostRecord {
        self.agreement.record()
    }

    /// Returns true if any event other than the arrival of a record is possible at the host.
    pub(super) fn acts(&self) -> bool {
        !self.crashed && !self.agreement.is_stopped()
    }

    pub(super) fn is_crashed(&self) -> bool {
        self.crashed
    }

    /// Returns true if the host accepts records from `other`.
    pub(super) fn hears(&self, other: usize) -> bool {
        self.acts() && !self.agreement.silent().contains(id(other))
    }

    /// Returns true if the host would notice a crash of `other`.
    pub(super) fn awaits(&self, other: usize) -> bool {
        self.hears(other) && self.agreement.members().contains(id(other))
    }

    /// Returns the host's properties for the world. `record` is the number of its record.
    pub(super) fn facts(&self, record: u32) -> Facts {
        let least = match self.crashed {
            true => u64::MAX,
            false => self.agreement.least_pause(),
        };
        Facts {
            crashed: self.crashed,
            stopped: self.agreement.is_stopped(),
            waits: self.waits(),
            asks: self.asks,
            holds: self.holds,
            runs: self.runs,
            shows: self.shows,
            members: self.agreement.members(),
            pause: self.agreement.record().pause,
            record,
            least,
        }
    }

    /// Returns true if the host asks to join and does not take part yet.
    fn waits(&self) -> bool {
        matches!(self.agreement.record().stage, PauseStage::Joining)
    }

    /// Returns the possible events, other than arriving records and silent hosts.
    pub(super) fn steps(&self) -> Vec<Step> {
        let mut steps = Vec::new();
        if !self.acts() {
            return steps;
        }
        // A joining host makes no request before it takes part.
        if self.requests > 0 && !self.asks && !self.waits() {
            steps.push(Step::Claim);
        }
        if self.holds {
            steps.push(Step::Release);
        }
        if self.reaches() {
            steps.push(Step::Reach);
        }
        match self.orders.front() {
            Some(HostOrder::Close { .. }) => steps.extend([0, 2].map(Step::Close)),
            Some(_) => steps.push(Step::Act),
            None => {}
        }
        steps
    }

    pub(super) fn is_under_orders(&self) -> bool {
        !self.orders.is_empty()
    }

    /// Returns true if the clock may have reached the agreed stop, or if the host stands at a stop
    /// that it has requested.
    pub(super) fn reaches(&self) -> bool {
        let is_at_stop = match self.runs {
            // Later the clock stops at its ceiling, which the others receive.
            true => {
                let has_no_ceiling = matches!(self.record().stage, PauseStage::Running(_));
                has_no_ceiling && self.until != Instant::FAR_FUTURE
            }
            false => self.shows >= self.stop,
        };
        self.acts() && is_at_stop && !self.asks
    }

    pub(super) fn happen(&mut self, step: Step, slow: bool) -> Result<Done, Wrong> {
        let soonest = self.soonest();
        let mut done = Done::default();
        match step {
            Step::Claim => {
                self.requests -= 1;
                (self.asks, self.is_program) = (true, true);
                self.agreement.claim(soonest);
            }
            Step::Reach => {
                (self.asks, self.is_program) = (true, false);
                if self.runs {
                    self.shows = self.until;
                }
                self.agreement.claim(soonest);
            }
            Step::Release => {
                if self.dilates {
                    self.dilate()?;
                }
                if self.stops && self.is_program {
                    self.request_stop()?;
                }
                (self.asks, self.holds) = (false, false);
                self.agreement.release(soonest);
            }
            Step::Close(more) => self.close(more.into(), &mut done)?,
            Step::Act => self.act(&mut done)?,
            Step::Lost(other) => self.agreement.lost(id(other.into()), soonest),
        }
        self.settle(slow, &mut done)?;
        Ok(done)
    }

    /// Delivers a record of another host to the agreement.
    pub(super) fn hear(
        &mut self,
        from: usize,
        said: HostRecord,
        slow: bool,
    ) -> Result<Done, Wrong> {
        let soonest = self.soonest();
        let mut done = Done::default();
        self.agreement.heard(id(from), said, soonest);
        self.settle(slow, &mut done)?;
        Ok(done)
    }

    pub(super) fn crash(&mut self) {
        (self.crashed, self.holds) = (true, false);
        self.orders.clear();
    }

    /// Returns the instant at which the host could resume. It differs from host to host; that of
    /// the last host is the latest.
    fn soonest(&self) -> Instant<TimelineTime> {
        let pause = self.agreement.record().pause as i64;
        Instant::from_ns(10 * pause + self.index as i64)
    }

    /// Requests a dilation that no other request of any host has.
    fn dilate(&mut self) -> Result<(), Wrong> {
        let factor = 2 + self.index + HOSTS * self.requests;
        let dilation = Dilation::new(factor as f64).expect("a small factor");
        if !self.agreement.dilate(dilation) {
            return Err(format!("host {} holds and cannot dilate", self.index));
        }
        self.requested = Some(dilation);
        Ok(())
    }

    /// Requests a stop that falls among the instants of the next pause.
    fn request_stop(&mut self) -> Result<(), Wrong> {
        let next = self.agreement.record().pause as i64 + 1;
        let stop = Instant::from_ns(10 * next + 1);
        if !self.agreement.stop_at(stop) {
            return Err(format!("host {} holds and cannot stop", self.index));
        }
        self.stop = stop;
        Ok(())
    }

    fn close(&mut self, more: i64, done: &mut Done) -> Result<(), Wrong> {
        let soonest = self.soonest();
        let Some(HostOrder::Close { at_least }) = self.orders.pop_front() else {
            return Err("no ceiling was ordered".to_owned());
        };
        done.closed = true;
        let next = self.agreement.record().pause as i64 + 1;
        let shows = Instant::from_ns(10 * next + more).max(self.shows);
        self.shows = shows.min(self.until);
        let ceiling = self.shows.max(at_least.unwrap_or(Instant::ZERO));
        self.agreement.closed(ceiling, soonest);
        Ok(())
    }

    fn act(&mut self, done: &mut Done) -> Result<(), Wrong> {
        let (soonest, index) = (self.soonest(), self.index);
        let began = self.agreement.record();
        match self.orders.pop_front() {
            Some(HostOrder::Stand { at }) => {
                if at < self.shows {
                    return Err(format!("host {index} is past {at:?} already"));
                }
                if at > self.until {
                    return Err(format!("host {index} passes the stop {:?}", self.until));
                }
                (self.shows, self.runs) = (at, false);
                self.agreement.stood(soonest);
                done.said.push(ReportedInstant::Stands(began.pause, at));
            }
            Some(HostOrder::Resume(resumed)) => {
                let joins = self.shows == Instant::ZERO;
                if resumed.from != self.shows && !joins {
                    return Err(format!("host {index} jumps to {resumed:?}"));
                }
                // A host that requests a slower clock at the same time may outdo this one.
                if self.requested.take() > Some(resumed.dilation) {
                    return Err(format!(
                        "host {index} requested another dilation: {resumed:?}"
                    ));
                }
                if self.stop <= resumed.from {
                    return Err(format!("host {index} leaves its stop {:?}", self.stop));
                }
                if resumed.until > self.stop || resumed.until <= resumed.from {
                    return Err(format!("host {index} requested another stop: {resumed:?}"));
                }
                (self.shows, self.runs) = (resumed.from, true);
                self.until = resumed.until;
                let pause = match began.stage {
                    PauseStage::Closing { .. } => began.pause - 1,
                    _ => began.pause,
                };
                done.said.push(ReportedInstant::Ended(pause, resumed));
            }
            order => return Err(format!("{order:?} is no act")),
        }
        Ok(())
    }

    /// Takes the agreement's orders, and carries out those that take no time.
    pub(super) fn settle(&mut self, slow: bool, done: &mut Done) -> Result<(), Wrong> {
        self.take_orders()?;
        while !slow && self.is_under_orders() {
            match self.orders.front() {
                // The clock of each host shows a different time.
                Some(HostOrder::Close { .. }) => {
                    self.close((self.index as i64 + 1) % 3 * 2, done)?;
                }
                _ => self.act(done)?,
            }
            self.take_orders()?;
        }
        Ok(())
    }

    fn take_orders(&mut self) -> Result<(), Wrong> {
        while let Some(order) = self.agreement.next_order() {
            match order {
                HostOrder::HoldAlone => {}
                HostOrder::Halt(_) => {
                    self.orders.clear();
                    (self.runs, self.holds, self.requested) = (false, false, None);
                    (self.stop, self.until) = (Instant::FAR_FUTURE, Instant::FAR_FUTURE);
                }
                HostOrder::Grant { at } => {
                    if self.shows != at || self.runs {
                        let index = self.index;
                        return Err(format!("host {index} holds and does not stand"));
                    }
                    self.holds = true;
                    if self.stop <= at {
                        self.stop = Instant::FAR_FUTURE;
                        self.agreement
                            .postpone_stop(Instant::FAR_FUTURE, self.soonest());
                    }
                }
                order => self.orders.push_back(order),
            }
        }
        Ok(())
    }

    pub(super) fn know_nothing(&mut self) {
        self.agreement.know_nothing();
    }

    /// Returns the last known record of `other`.
    pub(super) fn knows(&self, other: usize) -> Option<&HostRecord> {
        self.agreement.knows(id(other))
    }

    /// Returns all records that a host may have sent before `said`, in the same pause.
    pub(super) fn supposes(&self, said: &HostRecord) -> Vec<HostRecord> {
        self.agreement.supposes(said)
    }

    /// Replaces the host by the representative of all hosts that behave alike: see
    /// [`super::canonical`].
    pub(super) fn make_canonical(&mut self) {
        if self.crashed {
            // A crashed host's past has no effect any more, except that the host requested the
            // line.
            self.agreement = self.agreement.anew();
            self.orders.clear();
            (self.requests, self.runs, self.shows) = (0, false, Instant::ZERO);
            self.requested = None;
            (self.stop, self.until) = (Instant::FAR_FUTURE, Instant::FAR_FUTURE);
        }
        self.agreement.without_old_knowledge();
    }

    pub(super) fn shift(&mut self, by: u64, span: Duration) {
        if !self.crashed {
            self.shows = self.shows - span;
            shift_stop(&mut self.stop, span);
            shift_stop(&mut self.until, span);
            self.agreement.shift(by, span);
        }
        self.orders.iter_mut().for_each(|order| order.shift(span));
    }
}
