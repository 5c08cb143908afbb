//! One host on the bus: its [`Agreement`], and the links that carry it.
//!
//! A datagram is the whole record, so a lost one is made good by the next: it is sent
//! again until it is acknowledged, and at every beat. A newer one makes an older one
//! worthless, so doubled and late ones are dropped. Who is not heard for longer than
//! the patience has gone silent.

use std::collections::{BTreeMap, VecDeque};

use timeloom_clock::Timeline;
use timeloom_time::{Duration, Instant, Virtual};

use crate::agreement::{Agreement, OnSilence, Order};
use crate::datagram::Datagram;
use crate::hosts::{HostId, Hosts};
use crate::link::Link;
use crate::record::{Halt, Record, Stage, Why};

/// What is the same for all hosts of a run.
#[derive(Clone, Copy, Debug)]
pub struct Settings {
    /// How far ahead of a request the pause is.
    pub mode: Mode,
    /// What a host that falls silent means.
    pub on_silence: OnSilence,
    /// For how long a host may say nothing.
    pub patience: Duration,
    /// For how long, at the start.
    pub assembly: Duration,
    /// How often a host says something at least.
    pub beat: Duration,
    /// What is new is said to all at once; acknowledged, and said again, one by one.
    pub to_all: bool,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            mode: Mode::Immediate,
            on_silence: OnSilence::Stop,
            patience: Duration::from_ms(800),
            assembly: Duration::from_s(60),
            beat: Duration::from_ms(100),
            to_all: false,
        }
    }
}

/// How far ahead of a request the pause is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// As near as the messages allow: by what they took lately, and the uncertainty
    /// of the timelines.
    Immediate,
    /// By this much virtual time, so that the instant of a pause does not depend on
    /// what the messages take, unless they take longer.
    Scheduled(Duration),
}

/// The timeline as a host reads it.
#[derive(Clone, Copy, Debug)]
pub struct Moment {
    /// What it shows.
    pub now: Instant<Timeline>,
    /// By how much that may be wrong, in either direction.
    pub uncertainty: Duration,
}

/// What is to be done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// Send this to its receiver.
    Send(Datagram),
    /// Do this to clock and processes. In order, each before the next.
    Order(Order),
}

/// One host on the bus.
#[derive(Debug)]
pub struct Member {
    me: HostId,
    settings: Settings,
    agreement: Agreement,
    links: BTreeMap<HostId, Link>,
    started: Instant<Timeline>,
    /// What was said last, and the number of the first datagram that said it.
    said: Record,
    said_first: u64,
    number: u64,
    /// It drives the wired line beside the network, and has said so or not yet.
    drives: bool,
    said_drives: bool,
    /// Since when the others do not agree on who is silent.
    disagree_since: Option<Instant<Timeline>>,
    orders: VecDeque<Order>,
    outbox: VecDeque<Datagram>,
}

impl Member {
    /// A host of a run that begins with `members`. `others` may come later.
    pub fn new(
        me: HostId,
        members: Hosts,
        others: Hosts,
        settings: Settings,
        moment: Moment,
    ) -> Self {
        let agreement = Agreement::new(me, members, settings.on_silence);
        Self::with(agreement, me, members.or(others), settings, moment)
    }

    /// A host that comes to a run of `others` under way.
    pub fn joining(me: HostId, others: Hosts, settings: Settings, moment: Moment) -> Self {
        let agreement = Agreement::joining(me, settings.on_silence);
        Self::with(agreement, me, others, settings, moment)
    }

    fn with(
        agreement: Agreement,
        me: HostId,
        all: Hosts,
        settings: Settings,
        moment: Moment,
    ) -> Self {
        // Numbers go on growing when a host begins anew.
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

    /// What is to be done next; `None` when nothing is until [`Self::next_wake`].
    pub fn next_action(&mut self) -> Option<Action> {
        let order = self.orders.pop_front().map(Action::Order);
        order.or_else(|| self.outbox.pop_front().map(Action::Send))
    }

    /// How far ahead of what its clock shows the host's ceiling is to be that
    /// asks first ([`Order::Close`] without `at_least`).
    pub fn lead(&self, moment: Moment) -> Duration {
        match self.settings.mode {
            Mode::Immediate => self.reach(moment),
            Mode::Scheduled(look_ahead) => look_ahead,
        }
    }

    /// Somebody here wants all hosts to stand, until [`Self::release`].
    pub fn claim(&mut self, moment: Moment) {
        self.agreement.claim(self.soonest(moment));
        self.settle(moment);
    }

    /// Nobody here holds the line any more.
    pub fn release(&mut self, moment: Moment) {
        self.agreement.release(self.soonest(moment));
        self.settle(moment);
    }

    /// This host drives the wired line beside the network from now on, or no longer. Said
    /// with what is said next.
    pub fn drives(&mut self, drives: bool) {
        self.drives = drives;
    }

    /// Whether any other host says that it drives the wired line.
    pub fn others_drive(&self) -> bool {
        let alive = self.agreement.alive();
        let mut links = self.links.iter();
        links.any(|(host, link)| alive.contains(*host) && link.drives)
    }

    /// The wired line is high, and nobody drives it: all stop, if so configured.
    pub fn line_is_stuck(&mut self, moment: Moment) {
        self.agreement.line_is_stuck();
        self.settle(moment);
    }

    /// The ceiling that was ordered is in force, here.
    pub fn closed(&mut self, ceiling: Instant<Virtual>, moment: Moment) {
        self.agreement.closed(ceiling, self.soonest(moment));
        self.settle(moment);
    }

    /// Clock and processes stand as ordered.
    pub fn stood(&mut self, moment: Moment) {
        self.agreement.stood(self.soonest(moment));
        self.settle(moment);
    }

    /// Clock or processes do not obey.
    pub fn failed(&mut self, moment: Moment) {
        self.agreement.failed();
        self.settle(moment);
    }

    /// A datagram that came. Dropped when it is of nobody known, for somebody else,
    /// or older than one that came before; says whether it was taken.
    pub fn receive(&mut self, datagram: &Datagram, moment: Moment) -> bool {
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

    /// Time has passed.
    pub fn wake(&mut self, moment: Moment) {
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

    /// When [`Self::wake`] has something to do.
    pub fn next_wake(&self) -> Instant<Timeline> {
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

    /// Whether it has stopped for good, and why.
    pub fn halt(&self) -> Option<Halt> {
        match self.said.stage {
            Stage::Stopped(halt) => Some(halt),
            _ => None,
        }
    }

    /// Who takes part now.
    pub fn members(&self) -> Hosts {
        self.agreement.members()
    }

    /// What it says of itself.
    pub fn record(&self) -> Record {
        self.said
    }

    /// How long the slowest message takes, there and back, and by how much two
    /// timelines may differ.
    fn reach(&self, moment: Moment) -> Duration {
        let members = self.agreement.alive();
        let links = self.links.iter().filter(|it| members.contains(*it.0));
        let reach = links.map(|(_, link)| link.reach()).max();
        // A figure out of bounds must not keep a testbed from ever pausing.
        let reach = reach.unwrap_or(Duration::ZERO).min(self.settings.patience);
        reach + moment.uncertainty
    }

    fn soonest(&self, moment: Moment) -> Instant<Timeline> {
        moment.now + self.reach(moment)
    }

    /// From when on a host counts as silent, if it says nothing until then.
    fn silent_from(&self, host: HostId) -> Instant<Timeline> {
        match self.links.get(&host).map(|link| link.heard) {
            Some(Some(heard)) => heard + self.settings.patience,
            _ => self.started + self.settings.assembly,
        }
    }

    fn next_send(&self, link: &Link) -> Instant<Timeline> {
        let wait = match link.acknowledged < self.said_first {
            true => link.retry(self.settings.beat),
            false => self.settings.beat,
        };
        link.sent.map_or(self.started, |sent| sent + wait)
    }

    /// Not to those that may join and have not been heard yet.
    fn speaks_to(&self, host: HostId) -> bool {
        let heard = self
            .links
            .get(&host)
            .is_some_and(|link| link.heard.is_some());
        let joins = matches!(self.said.stage, Stage::Joining);
        heard || joins || self.agreement.members().contains(host)
    }

    /// Takes over orders, and says what has to be said.
    fn settle(&mut self, moment: Moment) {
        while let Some(order) = self.agreement.next_order() {
            if matches!(order, Order::Halt(_)) {
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

    fn send(&mut self, to: HostId, moment: Moment) {
        self.number += 1;
        let Some(link) = self.links.get_mut(&to) else {
            return;
        };
        link.owes = false;
        link.sent = Some(moment.now);
        let datagram = self.datagram(Some(to), moment);
        self.outbox.push_back(datagram);
    }

    fn datagram(&self, to: Option<HostId>, moment: Moment) -> Datagram {
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

    /// Why it has stopped, for a message: see [`Why`].
    pub fn why(&self) -> Option<Why> {
        self.halt().map(|halt| halt.why)
    }
}
