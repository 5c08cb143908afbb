//! Stations: a station is a host together with the records of other hosts that are under way to it.
//!
//! Each event happens at one station, and affects other stations only through the record that its
//! host sends. So the outcomes of a station are computed once, for all worlds that contain it, and
//! a world consists of the numbers of its stations.

use timeloom_time::Duration;

use super::host::{Done, Facts, Host, ReportedInstant, Step};
use super::search::{Network, Scope};
use super::table::{Map, Table};
use super::{HOSTS, Wrong};
use crate::record::HostRecord;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Station {
    pub(super) host: u32,
    /// Records that may still arrive, by sending host. In networks that keep the order, the newest
    /// record is last.
    pub(super) queues: [u32; HOSTS],
}

/// Result of a step of a single host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Local {
    pub(super) host: u32,
    /// New record of the host; `None` if the step did not change the record.
    pub(super) record: Option<u32>,
    /// Number of the report of agreed instants that the host makes.
    pub(super) said: u32,
    pub(super) closed: bool,
    pub(super) wrong: Option<u32>,
    /// The step changed nothing but the host's knowledge.
    pub(super) is_silent: bool,
}

/// Possible event at a station, and its result.
#[derive(Clone, Copy, Debug)]
pub(super) struct Outcome {
    /// The host before the event, including what it has received for the event.
    pub(super) before: u32,
    pub(super) event: Event,
    pub(super) next: u32,
    pub(super) local: Local,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Event {
    Step(Step),
    /// A record (second number) of another host (first number) arrives.
    Hear(u8, u32),
    /// The host crashes.
    Crash,
}

impl Event {
    /// Returns the host that must have crashed before this event can happen; `None` if none must.
    pub(super) fn misses(self) -> Option<usize> {
        match self {
            Self::Step(Step::Lost(other)) => Some(other.into()),
            _ => None,
        }
    }
}

pub(super) struct Stations {
    pub(super) scope: Scope,
    records: Table<HostRecord>,
    hosts: Table<Host>,
    queues: Table<Vec<u32>>,
    stations: Table<Station>,
    facts: Vec<Facts>,
    outcomes: Vec<Option<Box<[Outcome]>>>,
    said: Table<Vec<ReportedInstant>>,
    wrongs: Table<Wrong>,
    heard: Map<(u32, u8, u32), Local>,
    pushed: Map<(u32, u8, u32), u32>,
    shifted: Map<(u32, u64), u32>,
    forgetful: Map<u32, u32>,
}

impl Stations {
    pub(super) fn new(scope: Scope) -> Self {
        let mut said = Table::default();
        assert_eq!(said.number(Vec::new()), NOTHING);
        Self {
            scope,
            records: Table::default(),
            hosts: Table::default(),
            queues: Table::default(),
            stations: Table::default(),
            facts: Vec::new(),
            outcomes: Vec::new(),
            said,
            wrongs: Table::default(),
            heard: Map::default(),
            pushed: Map::default(),
            shifted: Map::default(),
            forgetful: Map::default(),
        }
    }

    pub(super) fn get(&self, station: u32) -> Station {
        *self.stations.get(station)
    }

    pub(super) fn host(&self, host: u32) -> &Host {
        self.hosts.get(host)
    }

    pub(super) fn record(&self, record: u32) -> &HostRecord {
        self.records.get(record)
    }

    pub(super) fn facts(&self, station: u32) -> &Facts {
        &self.facts[station as usize]
    }

    pub(super) fn said(&self, said: u32) -> &[ReportedInstant] {
        self.said.get(said)
    }

    pub(super) fn wrong(&self, wrong: u32) -> &Wrong {
        self.wrongs.get(wrong)
    }

    /// Returns the sizes of the tables of records, hosts, queues and stations.
    pub(super) fn sizes(&self) -> [usize; 4] {
        let (records, hosts) = (self.records.len(), self.hosts.len());
        [records, hosts, self.queues.len(), self.stations.len()]
    }

    /// Returns the numbers of the initial stations and of the reports that their hosts make.
    pub(super) fn start(&mut self) -> Result<([u32; HOSTS], [u32; HOSTS]), Wrong> {
        let mut records = Vec::new();
        let (mut hosts, mut said) = ([0; HOSTS], [0; HOSTS]);
        for index in 0..HOSTS {
            let mut host = Host::new(index, &self.scope);
            let first = host.record();
            let mut done = Done::default();
            host.settle(self.scope.slow, &mut done)?;
            let mut told = vec![self.records.number(first)];
            if host.record() != first {
                told.push(self.records.number(host.record()));
            }
            records.push(told);
            said[index] = self.said.number(done.said);
            hosts[index] = self.enter_host(host);
        }
        let mut stations = [0; HOSTS];
        for (index, station) in stations.iter_mut().enumerate() {
            let mut queues: [Vec<u32>; HOSTS] = Default::default();
            for (from, queue) in queues.iter_mut().enumerate().filter(|it| it.0 != index) {
                let told = &records[from];
                for record in told {
                    self.scope.network.carry(queue, *record);
                }
            }
            *station = self.enter(hosts[index], queues);
        }
        Ok((stations, said))
    }

    fn enter_host(&mut self, mut host: Host) -> u32 {
        if self.scope.merges {
            host.make_canonical();
        }
        self.hosts.number(host)
    }

    /// Returns the station of this host, without those records in `queues` that have no effect on
    /// it.
    pub(super) fn enter(&mut self, host: u32, mut queues: [Vec<u32>; HOSTS]) -> u32 {
        let it = self.hosts.get(host);
        if it.is_crashed() || (self.scope.merges && !it.acts()) {
            queues = Default::default();
        }
        if self.scope.merges {
            for (from, queue) in queues.iter_mut().enumerate() {
                match self.scope.network {
                    Network::InOrder(_) => self.drop_old_news(host, from, queue),
                    Network::AnyOrder => self.make_canonical(host, from, queue),
                }
            }
            if self.scope.network == Network::AnyOrder {
                self.drop_votes(&mut queues);
            }
        }
        let queues = queues.map(|queue| self.queues.number(queue));
        self.keep(Station { host, queues })
    }

    /// Returns the number of a record in the table of records.
    pub(super) fn number(&mut self, record: HostRecord) -> u32 {
        self.records.number(record)
    }

    /// Returns the host without its knowledge of other hosts.
    pub(super) fn forgetful(&mut self, host: u32) -> u32 {
        if let Some(forgetful) = self.forgetful.get(&host) {
            return *forgetful;
        }
        let mut it = self.hosts.get(host).clone();
        it.know_nothing();
        let forgetful = self.hosts.number(it);
        self.forgetful.insert(host, forgetful);
        forgetful
    }

    fn drop_old_news(&mut self, host: u32, from: usize, queue: &mut Vec<u32>) {
        let is_idle = |record: &&u32| {
            let local = self.hear(host, from, **record);
            local.is_silent && local.host == host
        };
        let idle = queue.iter().take_while(is_idle).count();
        queue.drain(..idle);
    }

    fn keep(&mut self, station: Station) -> u32 {
        let number = self.stations.number(station);
        if number as usize == self.facts.len() {
            let host = self.hosts.get(station.host);
            let mut facts = host.facts(self.records.number(host.record()));
            let queues = station.queues.iter();
            let records = queues.flat_map(|queue| self.queues.get(*queue).iter());
            let pauses = records.map(|record| self.records.get(*record).pause);
            facts.least = pauses.fold(facts.least, u64::min);
            self.facts.push(facts);
            self.outcomes.push(None);
        }
        number
    }

    /// Returns the queues of records under way to a station, by sending host.
    pub(super) fn queues(&self, station: Station) -> [Vec<u32>; HOSTS] {
        station.queues.map(|queue| self.queues.get(queue).clone())
    }

    /// Returns the result of `step` at `host`.
    pub(super) fn step(&mut self, host: u32, step: Step) -> Local {
        self.after(host, |host, slow| host.happen(step, slow))
    }

    fn after(
        &mut self,
        host: u32,
        what: impl FnOnce(&mut Host, bool) -> Result<Done, Wrong>,
    ) -> Local {
        let before = self.hosts.get(host);
        let mut after = before.clone();
        let done = what(&mut after, self.scope.slow);
        let record = after.record();
        let is_news = record != before.record();
        if self.scope.merges {
            after.make_canonical();
        }
        let (mut one, mut other) = (before.clone(), after.clone());
        one.know_nothing();
        other.know_nothing();
        let is_like = one == other;
        let (done, wrong) = match done {
            Ok(done) => (done, None),
            Err(wrong) => (Done::default(), Some(wrong)),
        };
        let is_quiet = !is_news && wrong.is_none() && done.said.is_empty() && !done.closed;
        Local {
            is_silent: is_quiet && is_like,
            record: is_news.then(|| self.records.number(record)),
            said: self.said.number(done.said),
            closed: done.closed,
            wrong: wrong.map(|wrong| self.wrongs.number(wrong)),
            host: self.hosts.number(after),
        }
    }

    /// Returns the result when `record` of the host `from` arrives at `host`.
    pub(super) fn hear(&mut self, host: u32, from: usize, record: u32) -> Local {
        let key = (host, from as u8, record);
        if let Some(local) = self.heard.get(&key) {
            return *local;
        }
        let said = *self.records.get(record);
        let local = self.after(host, |host, slow| host.hear(from, said, slow));
        self.heard.insert(key, local);
        local
    }

    /// Returns the number of the host after a crash.
    pub(super) fn crash(&mut self, host: u32) -> u32 {
        let mut host = self.hosts.get(host).clone();
        host.crash();
        self.enter_host(host)
    }

    /// Adds a record of the host `from` to those under way to a station.
    pub(super) fn push(&mut self, station: u32, from: usize, record: u32) -> u32 {
        let key = (station, from as u8, record);
        if let Some(station) = self.pushed.get(&key) {
            return *station;
        }
        let it = self.get(station);
        let mut queues = self.queues(it);
        self.scope.network.carry(&mut queues[from], record);
        let next = self.enter(it.host, queues);
        self.pushed.insert(key, next);
        next
    }

    /// Returns the station with all its pause numbers reduced by `by`, and all its instants by
    /// `span`.
    pub(super) fn shift(&mut self, station: u32, by: u64, span: Duration) -> u32 {
        if let Some(station) = self.shifted.get(&(station, by)) {
            return *station;
        }
        let it = self.get(station);
        let mut host = self.hosts.get(it.host).clone();
        host.shift(by, span);
        let host = self.hosts.number(host);
        let queues = self.queues(it).map(|mut queue| {
            for number in &mut queue {
                let mut record = *self.records.get(*number);
                record.shift(by, span);
                *number = self.records.number(record);
            }
            self.queues.number(queue)
        });
        let next = self.keep(Station { host, queues });
        self.shifted.insert((station, by), next);
        next
    }

    /// Returns the representative, in these tables, of a station of another scope. If `bare` is
    /// true, the host's knowledge and the records under way are left out.
    pub(super) fn adopt(&mut self, other: &Self, station: u32, bare: bool) -> u32 {
        let station = other.get(station);
        let mut host = other.hosts.get(station.host).clone();
        if bare {
            host.know_nothing();
            let host = self.enter_host(host);
            return self.enter(host, Default::default());
        }
        let host = self.enter_host(host);
        let queues = station.queues.map(|queue| {
            let records = other.queues.get(queue).iter().map(|it| *other.record(*it));
            records.map(|it| self.records.number(it)).collect()
        });
        self.enter(host, queues)
    }

    /// Returns true if no event remains at the station once the newest records of all hosts have
    /// arrived.
    pub(super) fn is_idle(&mut self, station: u32, newest: [u32; HOSTS]) -> bool {
        let Station { host, queues } = self.get(station);
        let it = self.hosts.get(host);
        let is_heard = |queue: &u32| self.queues.get(*queue).is_empty();
        !it.acts()
            || !it.is_under_orders()
                && !it.reaches()
                && match self.scope.network {
                    Network::InOrder(_) => queues.iter().all(is_heard),
                    Network::AnyOrder => self.rests_with(host, newest),
                }
    }

    /// Describes an event in words, for the report of a violation.
    pub(super) fn story(&self, host: usize, outcome: &Outcome) -> String {
        let before = self.hosts.get(outcome.before);
        let known = (0..HOSTS).filter_map(|other| Some((other, before.knows(other)?)));
        let known: Vec<String> = known.map(|(it, said)| format!("{it}: {said:?}")).collect();
        let event = match outcome.event {
            Event::Hear(from, record) => format!("hears {from}: {:?}", self.record(record)),
            event => format!("{event:?}"),
        };
        let says = outcome.local.record.map(|it| self.record(it));
        format!("  host {host}, which knows {known:?}: {event}; says {says:?}\n")
    }

    /// Returns the possible events of a station, with their results.
    pub(super) fn outcomes(&mut self, station: u32) -> &[Outcome] {
        let at = station as usize;
        if self.outcomes[at].is_none() {
            let outcomes = self.work_out(station);
            self.outcomes[at] = Some(outcomes.into());
        }
        self.outcomes[at].as_deref().expect("it was worked out")
    }

    fn work_out(&mut self, station: u32) -> Vec<Outcome> {
        let Station { host, .. } = self.get(station);
        if !self.hosts.get(host).acts() {
            return Vec::new();
        }
        let queues = self.queues(self.get(station));
        let mut outcomes = match self.scope.network {
            Network::InOrder(_) => self.in_order(host, &queues),
            Network::AnyOrder => self.in_any_order(host, queues),
        };
        let crashed = self.crash(host);
        outcomes.push(Outcome {
            before: host,
            event: Event::Crash,
            next: self.enter(crashed, Default::default()),
            local: Local::quiet(crashed),
        });
        outcomes
    }

    /// Returns the events that are possible at a host whatever records are under way to it.
    pub(super) fn steps(&mut self, host: u32) -> Vec<(Event, Local)> {
        let it = self.hosts.get(host);
        let lost = (0..HOSTS).filter(|other| it.awaits(*other));
        let lost = lost.map(|other| Step::Lost(other as u8));
        let steps: Vec<Step> = it.steps().into_iter().chain(lost).collect();
        let steps = steps.into_iter();
        steps
            .map(|step| (Event::Step(step), self.step(host, step)))
            .collect()
    }

    fn in_order(&mut self, host: u32, queues: &[Vec<u32>; HOSTS]) -> Vec<Outcome> {
        let mut outcomes = Vec::new();
        let mut add = |event, next, local| {
            outcomes.push(Outcome {
                before: host,
                event,
                next,
                local,
            });
        };
        for (event, local) in self.steps(host) {
            let mut left = queues.clone();
            if let Some(other) = event.misses() {
                left[other].clear();
            }
            add(event, self.enter(local.host, left), local);
        }
        for (from, queue) in queues.iter().enumerate() {
            if !self.hosts.get(host).hears(from) {
                continue;
            }
            for (at, record) in queue.iter().enumerate() {
                let local = self.hear(host, from, *record);
                let mut left = queues.clone();
                left[from].drain(..=at);
                let event = Event::Hear(from as u8, *record);
                add(event, self.enter(local.host, left), local);
            }
        }
        outcomes
    }
}

impl Local {
    /// Returns the result of an event that leaves the record as it is.
    fn quiet(host: u32) -> Self {
        Self {
            host,
            record: None,
            said: NOTHING,
            closed: false,
            wrong: None,
            is_silent: false,
        }
    }
}

/// Number of the report that contains nothing.
pub(super) const NOTHING: u32 = 0;
