//! A host on the bus: its [`Agreement`], and its links to the other hosts.
//!
//! A datagram contains the whole record, so the next datagram makes up for a lost one: the record
//! is sent again until it is acknowledged, and at every beat. A newer record replaces all older
//! ones, so duplicated and late datagrams are dropped. A host counts as silent when no datagram
//! from it has arrived for longer than the patience.

use std::collections::{BTreeMap, VecDeque};

use timeloom_clock::TimelineTime;
use timeloom_time::{Dilation, Duration, Instant, Virtual};

use crate::agreement::{Agreement, HostOrder, OnSilence};
use crate::datagram::Datagram;
use crate::hosts::{HostId, Hosts};
use crate::link::Link;
use crate::record::{Halt, HaltCause, HostRecord, PauseStage};

/// Settings that are the same for all hosts of a run.
#[derive(Clone, Copy, Debug)]
pub struct Settings {
    /// Virtual time between the request of a pause and its beginning.
    pub mode: LeadMode,
    /// Reaction to a host that falls silent.
    pub on_silence: OnSilence,
    /// Time without a datagram from a host after which it counts as silent.
    pub patience: Duration,
    /// The same limit for a host from which no datagram has arrived yet, from the start of the run.
    pub assembly: Duration,
    /// Maximum interval between two datagrams of this host to another host.
    pub beat: Duration,
    /// Dilation of the clocks at the start.
    pub dilation: Dilation,
    /// True if new records are sent to all hosts with one datagram. Acknowledgements and
    /// retransmissions always go to a single host.
    pub to_all: bool,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            mode: LeadMode::Immediate,
            on_silence: OnSilence::Stop,
            patience: Duration::from_ms(800),
            assembly: Duration::from_s(60),
            beat: Duration::from_ms(100),
            dilation: Dilation::ONE,
            to_all: false,
        }
    }
}

/// Virtual time between the request of a pause and its beginning (the lead).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LeadMode {
    /// The shortest lead that the messages permit, computed from the measured round-trip times and
    /// the uncertainty of the timelines.
    Immediate,
    /// A constant lead, so that the instant of a pause does not depend on message delays, unless
    /// these exceed the lead.
    Scheduled(Duration),
}

/// A host's reading of the common timeline.
#[derive(Clone, Copy, Debug)]
pub struct TimelineReading {
    /// Instant that the timeline shows.
    pub now: Instant<TimelineTime>,
    /// Error bound of `now`, in either direction.
    pub uncertainty: Duration,
}

/// Action that the caller must carry out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MemberAction {
    /// Send this datagram to its receiver.
    Send(Datagram),
    /// Apply this order to the clock and the processes. The caller must apply orders in sequence,
    /// and complete each before the next.
    Order(HostOrder),
}

/// A host on the bus, without sockets and clocks of its own.
#[derive(Debug)]
pub struct Member {
    me: HostId,
    settings: Settings,
    agreement: Agreement,
    links: BTreeMap<HostId, Link>,
    started: Instant<TimelineTime>,
    /// Last record sent; `said_first` is the number of the first datagram that contained it.
    said: HostRecord,
    said_first: u64,
    number: u64,
    /// True if this host drives the wired line beside the network; `said_drives` is the value last
    /// sent.
    drives: bool,
    said_drives: bool,
    /// Timeline instant since which the members disagree about the set of silent hosts.
    disagree_since: Option<Instant<TimelineTime>>,
    orders: VecDeque<HostOrder>,
    outbox: VecDeque<Datagram>,
}

impl Member {
    /// Returns a host of a run that begins with `members`. The hosts of `others` may join later.
    pub fn new(
        me: HostId,
        members: Hosts,
        others: Hosts,
        settings: Settings,
        moment: TimelineReading,
    ) -> Self {
        let agreement = Agreement::new(me, members, settings.on_silence, settings.dilation);
        Self::with(agreement, me, members.or(others), settings, moment)
    }

    /// Returns a host that joins a run of the hosts `others`, which is under way.
    pub fn joining(me: HostId, others: Hosts, settings: Settings, moment: TimelineReading) -> Self {
        let agreement = Agreement::joining(me, settings.on_silence);
        Self::with(agreement, me, others, settings, moment)
    }

    fn with(
        agreement: Agreement,
        me: HostId,
        all: Hosts,
        settings: Settings,
        moment: TimelineReading,
    ) -> Self {
        // The first number is the timeline's reading, so numbers keep growing when a host restarts.
        let number = moment.now.as_ns().max(0).unsigned_abs();
        let others = all.iter().filter(|host| *host != me);
        let mut member = Self {
            me,
            settings,
            said: agreement.record(),
            agreement,
            links: others.map(|host| (host, Link::default())).collect(),
            started: moment.now,
            said_first: number + 1,
            number,
            drives: false,
            said_drives: false,
            disagree_since: None,
            orders: VecDeque::new(),
            outbox: VecDeque::new(),
        };
        member.settle(moment);
        member
    }

    /// Takes the next action out of the queue. `None` means that there is no action until
    /// [`Self::next_wake`] or until the caller reports an event.
    pub fn next_action(&mut self) -> Option<MemberAction> {
        let order = self.orders.pop_front().map(MemberAction::Order);
        order.or_else(|| self.outbox.pop_front().map(MemberAction::Send))
    }

    /// Returns the lead of the ceiling over the current reading of the virtual clock, in virtual
    /// time. The host that sets the first ceiling of a pause ([`HostOrder::Close`] without `at_least`)
    /// uses it.
    pub fn lead(&self, moment: TimelineReading) -> Duration {
        match self.settings.mode {
            LeadMode::Immediate => {
                let reach = self.reach(moment).as_ns().max(0).unsigned_abs();
                let lead = self.agreement.dilation().rate().apply(reach);
                Duration::from_ns(i64::try_from(lead).unwrap_or(i64::MAX))
            }
            LeadMode::Scheduled(look_ahead) => look_ahead,
        }
    }

    /// Requests the line for a local program: all hosts pause, until [`Self::release`].
    pub fn claim(&mut self, moment: TimelineReading) {
        self.agreement.claim(self.soonest(moment));
        self.settle(moment);
    }

    /// Releases the line when no local program needs it any more.
    pub fn release(&mut self, moment: TimelineReading) {
        self.agreement.release(self.soonest(moment));
        self.settle(moment);
    }

    /// Requests that all clocks have this dilation from the end of the present pause on, as
    /// [`Agreement::dilate`] does. Returns false, without effect, unless this host holds the line.
    pub fn dilate(&mut self, dilation: Dilation) -> bool {
        self.agreement.dilate(dilation)
    }

    /// Requests that no clock passes `at`, as [`Agreement::stop_at`] does. Returns false, without
    /// effect, unless this host holds the line and `at` is after the pause.
    pub fn stop_at(&mut self, at: Instant<Virtual>) -> bool {
        self.agreement.stop_at(at)
    }

    /// Replaces the request of [`Self::stop_at`] by one for a later instant, or, with
    /// [`Instant::FAR_FUTURE`], withdraws it.
    pub fn postpone_stop(&mut self, to: Instant<Virtual>, moment: TimelineReading) {
        self.agreement.postpone_stop(to, self.soonest(moment));
        self.settle(moment);
    }

    /// Sets if this host drives the wired line beside the network. The other hosts learn it from
    /// the next datagram.
    pub fn drives(&mut self, drives: bool) {
        self.drives = drives;
    }

    /// Returns true if any other host that is not silent reports that it drives the wired line.
    pub fn others_drive(&self) -> bool {
        let alive = self.agreement.alive();
        let mut links = self.links.iter();
        links.any(|(host, link)| alive.contains(*host) && link.drives)
    }

    /// Reports that the wired line is high although no host reports that it drives it. All hosts
    /// stop if [`OnSilence::Stop`] is configured; otherwise there is no effect.
    pub fn line_is_stuck(&mut self, moment: TimelineReading) {
        self.agreement.line_is_stuck();
        self.settle(moment);
    }

    /// Reports that the ordered ceiling is in force on this host, and its value.
    pub fn closed(&mut self, ceiling: Instant<Virtual>, moment: TimelineReading) {
        self.agreement.closed(ceiling, self.soonest(moment));
        self.settle(moment);
    }

    /// Reports that clock and processes have stopped as ordered.
    pub fn stood(&mut self, moment: TimelineReading) {
        self.agreement.stood(self.soonest(moment));
        self.settle(moment);
    }

    /// Reports that the clock or the processes did not obey an order; all hosts stop.
    pub fn failed(&mut self, moment: TimelineReading) {
        self.agreement.failed();
        self.settle(moment);
    }

    /// Processes a received datagram and returns true. Drops the datagram and returns false if it
    /// is from an unknown or silent host, for another host, or older than a datagram that was
    /// received before.
    pub fn receive(&mut self, datagram: &Datagram, moment: TimelineReading) -> bool {
        let from = datagram.from;
        let deaf = self.agreement.silent().contains(from);
        let Some(link) = self.links.get_mut(&from) else {
            return false;
        };
        if datagram.to.is_some_and(|to| to != self.me) || deaf || !link.take(datagram, moment.now) {
            return false;
        }
        if link.owes {
            let soonest = self.soonest(moment);
            self.agreement.heard(from, datagram.record, soonest);
        }
        self.settle(moment);
        true
    }

    /// Detects silent hosts and queues the datagrams that are due at `moment`.
    pub fn wake(&mut self, moment: TimelineReading) {
        let awaited = self.agreement.members().without(self.agreement.silent());
        for host in awaited.iter().filter(|host| *host != self.me) {
            if self.silent_from(host) <= moment.now {
                self.agreement.lost(host, self.soonest(moment));
            }
        }
        self.settle(moment);
        if let Some(since) = self.disagree_since
            && moment.now - since > self.settings.patience
            && let Some(silent) = self.agreement.silent().iter().next()
        {
            self.agreement.cut_off_from(silent);
            self.settle(moment);
        }
    }

    /// Returns the timeline instant by which [`Self::wake`] must be called.
    pub fn next_wake(&self) -> Instant<TimelineTime> {
        let awaited = match self.agreement.is_stopped() {
            true => Hosts::NONE,
            false => self.agreement.alive(),
        };
        let awaited = awaited.iter().filter(|host| *host != self.me);
        let silences = awaited.map(|host| self.silent_from(host));
        let sends = self.links.iter().filter(|(host, _)| self.speaks_to(**host));
        let sends = sends.map(|(_, link)| self.next_send(link));
        let patience = self.settings.patience + Duration::from_ns(1);
        let stop = self.disagree_since.map(|since| since + patience);
        let all = silences.chain(sends).chain(stop);
        all.min().unwrap_or(Instant::FAR_FUTURE)
    }

    /// Returns the host and the cause of a stop for good; `None` if the host has not stopped for
    /// good.
    pub fn halt(&self) -> Option<Halt> {
        match self.said.stage {
            PauseStage::Stopped(halt) => Some(halt),
            _ => None,
        }
    }

    /// Returns the current members of the run.
    pub fn members(&self) -> Hosts {
        self.agreement.members()
    }

    /// Returns the other members that are not silent, each with its last record; `None` if no
    /// record has arrived yet.
    pub fn others(&self) -> impl Iterator<Item = (HostId, Option<&HostRecord>)> {
        self.agreement.others()
    }

    /// Returns the record that this host sent last.
    pub fn record(&self) -> HostRecord {
        self.said
    }

    /// Returns the longest round-trip time to any member, plus the largest possible difference
    /// between two timelines.
    fn reach(&self, moment: TimelineReading) -> Duration {
        let members = self.agreement.alive();
        let links = self.links.iter().filter(|it| members.contains(*it.0));
        let reach = links.map(|(_, link)| link.reach()).max();
        // Limited to the patience, so that an excessive estimate cannot prevent all pauses.
        let reach = reach.unwrap_or(Duration::ZERO).min(self.settings.patience);
        reach + moment.uncertainty
    }

    fn soonest(&self, moment: TimelineReading) -> Instant<TimelineTime> {
        let change = match self.agreement.changes_dilation() {
            true => CHANGE_TAKES,
            false => Duration::ZERO,
        };
        moment.now + self.reach(moment) + change
    }

    /// Returns the instant at which `host` counts as silent unless a datagram from it arrives
    /// before.
    fn silent_from(&self, host: HostId) -> Instant<TimelineTime> {
        match self.links.get(&host).map(|link| link.heard) {
            Some(Some(heard)) => heard + self.settings.patience,
            _ => self.started + self.settings.assembly,
        }
    }

    fn next_send(&self, link: &Link) -> Instant<TimelineTime> {
        let wait = match link.acknowledged < self.said_first {
            true => link.retry(self.settings.beat),
            false => self.settings.beat,
        };
        link.sent.map_or(self.started, |sent| sent + wait)
    }

    /// Returns false for a host that may join and from which no datagram has arrived yet.
    fn speaks_to(&self, host: HostId) -> bool {
        let heard = self
            .links
            .get(&host)
            .is_some_and(|link| link.heard.is_some());
        let joins = matches!(self.said.stage, PauseStage::Joining);
        heard || joins || self.agreement.members().contains(host)
    }

    /// Queues the agreement's orders, and the datagrams that are due or have a new record.
    fn settle(&mut self, moment: TimelineReading) {
        while let Some(order) = self.agreement.next_order() {
            if matches!(order, HostOrder::Halt(_)) {
                self.orders.clear();
            }
            self.orders.push_back(order);
        }
        let record = self.agreement.record();
        let is_news = record != self.said || self.drives != self.said_drives;
        if is_news {
            (self.said, self.said_first) = (record, self.number + 1);
            self.said_drives = self.drives;
        }
        self.disagree_since = match self.agreement.silent().is_empty()
            || self.agreement.view_is_agreed()
            || self.agreement.is_stopped()
        {
            true => None,
            false => self.disagree_since.or(Some(moment.now)),
        };
        let is_told = is_news && self.settings.to_all;
        if is_told {
            self.number += 1;
            let datagram = self.datagram(None, moment);
            self.outbox.push_back(datagram);
            for link in self.links.values_mut() {
                link.sent = Some(moment.now);
            }
        }
        let is_news = is_news && !is_told;
        let hosts: Vec<HostId> = self.links.keys().copied().collect();
        for host in hosts {
            let link = &self.links[&host];
            let is_due = is_news || link.owes || self.next_send(link) <= moment.now;
            if is_due && self.speaks_to(host) {
                self.send(host, moment);
            }
        }
    }

    fn send(&mut self, to: HostId, moment: TimelineReading) {
        self.number += 1;
        let Some(link) = self.links.get_mut(&to) else {
            return;
        };
        link.owes = false;
        link.sent = Some(moment.now);
        let datagram = self.datagram(Some(to), moment);
        self.outbox.push_back(datagram);
    }

    fn datagram(&self, to: Option<HostId>, moment: TimelineReading) -> Datagram {
        let link = to.and_then(|to| self.links.get(&to));
        Datagram {
            from: self.me,
            to,
            number: self.number,
            acknowledges: link.map_or(0, |link| link.newest),
            stamp: moment.now,
            uncertainty: moment.uncertainty,
            echo: link.and_then(|link| link.echo(moment.now)),
            record: self.said,
            drives: self.said_drives,
        }
    }

    /// Returns the cause of a stop for good, for a message; `None` if the host has not stopped for
    /// good.
    pub fn why(&self) -> Option<HaltCause> {
        self.halt().map(|halt| halt.why)
    }
}

/// Time that each host has, after it knows the end of a pause, to change the rate of its stopped
/// clock and of what depends on it. A host that takes longer resumes late.
const CHANGE_TAKES: Duration = Duration::from_ms(20);
