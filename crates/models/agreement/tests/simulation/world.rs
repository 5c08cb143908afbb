//! Simulated world of the tests: hosts, their clocks, and a lossy network between them.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};

use timeloom_agreement::{
    Datagram, HostId, HostOrder, Hosts, Member, MemberAction, Resumption, Settings, TimelineReading,
};
use timeloom_clock::TimelineTime;
use timeloom_engine::Random;
use timeloom_time::{ClockMap, Dilation, Duration, Instant, Virtual};

/// Delays and losses of a simulated network.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Network {
    pub(crate) loss: f64,
    pub(crate) duplication: f64,
    /// Minimum and maximum delay of a datagram. Because of the spread, datagrams can overtake each
    /// other.
    pub(crate) delay: (Duration, Duration),
}

/// Maximum error of a host's timeline.
pub(crate) const UNCERTAINTY: Duration = Duration::from_us(20);

pub(crate) struct Host {
    pub(crate) member: Member,
    /// Difference of the host's timeline from the true one.
    pub(crate) error: Duration,
    pub(crate) orders: std::collections::VecDeque<HostOrder>,
    /// Last resume; `None` while the host is paused.
    pub(crate) runs: Option<Resumption>,
    /// Changes of the dilation, each with the virtual instant from which it is in force.
    pub(crate) changes: Vec<(Instant<Virtual>, Dilation)>,
    /// True if the host has not carried out a change that it knows.
    pub(crate) postponed: bool,
    pub(crate) ceiling: Option<Instant<Virtual>>,
    /// Stop that the host has requested and not reached yet; [`Instant::FAR_FUTURE`] if none.
    pub(crate) stop: Instant<Virtual>,
    pub(crate) stopped: usize,
    pub(crate) shows: Instant<Virtual>,
    pub(crate) requests: usize,
    pub(crate) asks: bool,
    pub(crate) holds: bool,
    pub(crate) granted: usize,
    pub(crate) crashed: bool,
    /// Instant at which [`Member::wake`] is scheduled, if any.
    pub(crate) wakes: Option<Instant<TimelineTime>>,
    /// Instant at which an order will be carried out, if any.
    pub(crate) acts: Option<Instant<TimelineTime>>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Event {
    Arrive(usize, Vec<u8>),
    Wake(usize),
    /// The host with this index reaches its ceiling, or is due to resume.
    Act(usize),
    Claim(usize),
    Release(usize),
    /// The clock of the host with this index has reached the agreed stop.
    Reach(usize),
    Crash(usize),
}

pub(crate) struct World {
    pub(crate) hosts: Vec<Host>,
    pub(crate) network: Network,
    pub(crate) random: Random,
    pub(crate) now: Instant<TimelineTime>,
    pub(crate) events: BinaryHeap<Reverse<(Instant<TimelineTime>, u64, usize)>>,
    pub(crate) what: Vec<Event>,
    pub(crate) broken: Option<(usize, usize)>,
    /// True if each holder requests a dilation.
    pub(crate) dilates: bool,
    /// True if each holder requests a stop at a later instant.
    pub(crate) stops: bool,
    /// Host that changes its dilation one pause late: a deliberate error.
    pub(crate) late: Option<usize>,
    pub(crate) stands: BTreeMap<Instant<Virtual>, usize>,
    pub(crate) ends: BTreeMap<Instant<Virtual>, Resumption>,
    pub(crate) sent: usize,
}

pub(crate) fn id(index: usize) -> HostId {
    HostId::new(index as u8).expect("at most 64 hosts")
}

pub(crate) fn settings() -> Settings {
    Settings {
        patience: Duration::from_s(2),
        beat: Duration::from_ms(50),
        ..Settings::default()
    }
}

impl World {
    pub(crate) fn new(count: usize, seed: u64, network: Network, settings: Settings) -> Self {
        let mut random = Random::new(seed, 0);
        let all: Hosts = (0..count).map(id).collect();
        let start = Instant::from_ns(1_000_000_000);
        let hosts = (0..count).map(|index| {
            let span = UNCERTAINTY.as_ns() as u64;
            let error = Duration::from_ns(random.below(2 * span) as i64 - span as i64);
            let moment = TimelineReading {
                now: start + error,
                uncertainty: UNCERTAINTY,
            };
            Host {
                member: Member::new(id(index), all, Hosts::NONE, settings, moment),
                error,
                orders: Default::default(),
                runs: None,
                changes: Vec::new(),
                postponed: false,
                ceiling: None,
                stop: Instant::FAR_FUTURE,
                stopped: 0,
                shows: Instant::ZERO,
                requests: 0,
                asks: false,
                holds: false,
                granted: 0,
                crashed: false,
                wakes: None,
                acts: None,
            }
        });
        let mut world = Self {
            hosts: hosts.collect(),
            network,
            random,
            now: start,
            events: BinaryHeap::new(),
            what: Vec::new(),
            broken: None,
            dilates: false,
            stops: false,
            late: None,
            stands: BTreeMap::new(),
            ends: BTreeMap::new(),
            sent: 0,
        };
        (0..count).for_each(|index| world.settle(index));
        world
    }

    /// Schedules `times` requests for the line on each of the first `hosts` hosts, at random
    /// instants `within` the given time.
    pub(crate) fn ask(&mut self, hosts: usize, times: usize, within: Duration) {
        for index in 0..hosts {
            self.hosts[index].requests = times;
            self.later(within, Event::Claim(index));
        }
    }

    pub(crate) fn at(&mut self, at: Instant<TimelineTime>, event: Event) {
        self.what.push(event);
        let number = self.what.len();
        let key = (at.max(self.now), number as u64, number - 1);
        self.events.push(Reverse(key));
    }

    pub(crate) fn later(&mut self, most: Duration, event: Event) {
        let after = self.random.below(most.as_ns() as u64) as i64;
        self.at(self.now + Duration::from_ns(after), event);
    }

    pub(crate) fn moment(&self, index: usize) -> TimelineReading {
        TimelineReading {
            now: self.now + self.hosts[index].error,
            uncertainty: UNCERTAINTY,
        }
    }

    /// Returns the reading of a host's virtual clock.
    pub(crate) fn clock(&self, index: usize) -> Instant<Virtual> {
        let host = &self.hosts[index];
        let Some(resumed) = host.runs else {
            return host.shows;
        };
        let shown = line(resumed).at(self.moment(index).now);
        let shown = shown.max(resumed.from);
        host.ceiling.map_or(shown, |ceiling| shown.min(ceiling))
    }

    pub(crate) fn act_at(&mut self, index: usize, due: Instant<TimelineTime>) {
        if self.hosts[index].acts.is_none_or(|other| due < other) {
            self.hosts[index].acts = Some(due);
            self.at(due, Event::Act(index));
        }
    }

    /// Runs until `over` returns true. Returns false if that takes longer than `most`, or if no
    /// event is left.
    pub(crate) fn run(&mut self, most: Duration, over: impl Fn(&Self) -> bool) -> bool {
        let end = self.now + most;
        while !over(self) {
            let next = self.events.peek().map(|next| next.0);
            let Some((at, _, number)) = next.filter(|(at, ..)| *at <= end) else {
                return false;
            };
            self.events.pop();
            self.now = at;
            assert!(self.what.len() < 20_000_000, "too much goes on {at:?}");
            let event = self.what[number].clone();
            self.happen(event);
        }
        true
    }

    pub(crate) fn happen(&mut self, event: Event) {
        let index = match &event {
            Event::Arrive(index, _) => *index,
            Event::Wake(index)
            | Event::Act(index)
            | Event::Claim(index)
            | Event::Release(index)
            | Event::Reach(index)
            | Event::Crash(index) => *index,
        };
        if self.hosts[index].crashed {
            return;
        }
        let moment = self.moment(index);
        let host = &mut self.hosts[index];
        match event {
            Event::Arrive(_, bytes) => {
                let datagram = Datagram::from_bytes(&bytes).expect("what was sent");
                host.member.receive(&datagram, moment);
            }
            Event::Wake(_) => {
                host.wakes = None;
                host.member.wake(moment);
            }
            Event::Act(_) => {
                host.acts = None;
                self.act(index);
            }
            Event::Claim(_) => {
                if host.asks || host.requests == 0 {
                    return;
                }
                host.requests -= 1;
                host.asks = true;
                host.member.claim(moment);
            }
            Event::Release(_) => {
                if self.dilates {
                    let factor = FACTORS[self.random.below(FACTORS.len() as u64) as usize];
                    let dilation = Dilation::new(factor).expect("a factor");
                    assert!(self.hosts[index].member.dilate(dilation), "it holds");
                }
                let ahead = Duration::from_ms(1 + self.random.below(60) as i64);
                let host = &mut self.hosts[index];
                if self.stops && host.requests > 0 && host.stop == Instant::FAR_FUTURE {
                    host.stop = host.shows + ahead;
                    assert!(host.member.stop_at(host.stop), "it holds");
                }
                (host.asks, host.holds) = (false, false);
                host.member.release(moment);
                self.later(Duration::from_ms(300), Event::Claim(index));
            }
            Event::Reach(_) => {
                let shown = self.clock(index);
                let host = &mut self.hosts[index];
                let is_at_stop = match host.runs {
                    Some(resumed) => shown == resumed.until,
                    None => host.stop <= host.shows,
                };
                if is_at_stop && !host.asks {
                    host.asks = true;
                    host.member.claim(moment);
                }
            }
            Event::Crash(_) => {
                host.crashed = true;
                host.holds = false;
            }
        }
        self.settle(index);
    }

    pub(crate) fn act(&mut self, index: usize) {
        let moment = self.moment(index);
        let shows = self.clock(index);
        let host = &mut self.hosts[index];
        match host.orders.front().copied() {
            Some(HostOrder::Stand { at }) if shows >= at => {
                assert_eq!(shows, at, "a clock that passed the instant");
                (host.shows, host.runs) = (at, None);
                host.orders.pop_front();
                host.member.stood(moment);
                let stop = host.stop;
                assert!(stop >= at, "a clock that passed its stop");
                if stop == at {
                    self.later(Duration::from_ms(5), Event::Reach(index));
                }
                *self.stands.entry(at).or_default() += 1;
            }
            Some(HostOrder::Resume(resumed)) if moment.now >= resumed.at => {
                assert_eq!(resumed.from, host.shows, "a clock that jumps");
                let agreed = *self.ends.entry(resumed.from).or_insert(resumed);
                assert_eq!(agreed, resumed, "all go on at one instant and rate");
                let before = host.changes.last().map_or(Dilation::ONE, |it| it.1);
                let dilation = match self.late == Some(index) && !host.postponed {
                    true => before,
                    false => resumed.dilation,
                };
                host.postponed = dilation != resumed.dilation;
                if dilation != before {
                    host.changes.push((resumed.from, dilation));
                }
                host.runs = Some(Resumption {
                    dilation,
                    ..resumed
                });
                host.ceiling = (resumed.until < Instant::FAR_FUTURE).then_some(resumed.until);
                host.orders.pop_front();
                if resumed.until < Instant::FAR_FUTURE {
                    let reached = line(resumed).first_reaching(resumed.until);
                    let at = reached.expect("a clock that runs") - host.error;
                    self.at(at, Event::Reach(index));
                }
            }
            _ => {}
        }
    }

    pub(crate) fn settle(&mut self, index: usize) {
        while let Some(action) = self.hosts[index].member.next_action() {
            match action {
                MemberAction::Send(datagram) => self.send(&datagram),
                MemberAction::Order(HostOrder::Halt(_)) => {
                    let shows = self.clock(index);
                    let host = &mut self.hosts[index];
                    host.orders.clear();
                    (host.shows, host.runs, host.holds) = (shows, None, false);
                }
                MemberAction::Order(order) => self.hosts[index].orders.push_back(order),
            }
        }
        self.obey(index);
        let wake = self.hosts[index].member.next_wake();
        if self.hosts[index].wakes.is_none_or(|other| wake < other) {
            self.hosts[index].wakes = Some(wake);
            let at = wake - self.hosts[index].error;
            self.at(at, Event::Wake(index));
        }
    }

    /// Carries out the first order, or schedules the instant at which it can be carried out.
    pub(crate) fn obey(&mut self, index: usize) {
        let (shows, moment) = (self.clock(index), self.moment(index));
        let host = &mut self.hosts[index];
        match host.orders.front().copied() {
            Some(HostOrder::Close { at_least }) => {
                let lead = host.member.lead(moment);
                let ceiling = at_least.map_or(shows + lead, |at_least| shows.max(at_least));
                let ceiling = host.ceiling.map_or(ceiling, |stop| ceiling.min(stop));
                host.ceiling = Some(ceiling);
                host.orders.pop_front();
                host.member.closed(ceiling, moment);
                self.settle(index);
            }
            Some(HostOrder::Stand { at }) => {
                host.ceiling = Some(at);
                let due = match host.runs {
                    Some(resumed) => {
                        let reached = line(resumed).first_reaching(at);
                        reached.expect("a clock that runs") - host.error
                    }
                    None => self.now,
                };
                self.act_at(index, due);
            }
            Some(HostOrder::Resume(resumed)) => {
                let due = resumed.at - host.error;
                self.act_at(index, due);
            }
            Some(HostOrder::Grant { at }) => {
                host.orders.pop_front();
                host.holds = true;
                host.granted += 1;
                if host.stop <= at {
                    assert_eq!(host.stop, at, "a clock that passed its stop");
                    host.stop = Instant::FAR_FUTURE;
                    host.stopped += 1;
                    host.member.postpone_stop(Instant::FAR_FUTURE, moment);
                }
                self.all_stand_at(at);
                self.later(Duration::from_ms(20), Event::Release(index));
                self.obey(index);
            }
            Some(_) => {
                host.orders.pop_front();
                self.obey(index);
            }
            None => {}
        }
    }

    pub(crate) fn all_stand_at(&self, at: Instant<Virtual>) {
        for (index, host) in self.hosts.iter().enumerate().filter(|it| !it.1.crashed) {
            assert!(host.runs.is_none(), "host {index} runs while another holds");
            assert_eq!(host.shows, at, "host {index}");
        }
    }

    pub(crate) fn send(&mut self, datagram: &Datagram) {
        self.sent += 1;
        let from = datagram.from.number() as usize;
        match datagram.to {
            Some(to) => self.carry(datagram, (from, to.number() as usize)),
            // The network delivers a datagram to all as one copy for each host, which may be lost.
            None => (0..self.hosts.len())
                .filter(|to| *to != from)
                .for_each(|to| self.carry(datagram, (from, to))),
        }
    }

    pub(crate) fn carry(&mut self, datagram: &Datagram, pair: (usize, usize)) {
        if self.broken == Some(pair) || self.broken == Some((pair.1, pair.0)) {
            return;
        }
        let (least, most) = self.network.delay;
        let copies = 1 + usize::from(self.random.chance(self.network.duplication));
        for _ in 0..copies {
            if !self.random.chance(self.network.loss) {
                let span = (most - least).as_ns() as u64 + 1;
                let takes = least + Duration::from_ns(self.random.below(span) as i64);
                let bytes = datagram.to_bytes().to_vec();
                self.at(self.now + takes, Event::Arrive(pair.1, bytes));
            }
        }
    }

    pub(crate) fn all_run(&self) -> bool {
        let alive = self.hosts.iter().filter(|host| !host.crashed);
        let mut running = alive
            .clone()
            .map(|host| host.runs.map(|it| (it.from, it.at)));
        let first = running.next().flatten();
        first.is_some()
            && running.all(|one| one == first)
            && alive
                .clone()
                .all(|host| !host.asks && host.requests == 0 && host.stop == Instant::FAR_FUTURE)
    }

    /// Checks that all hosts that have not crashed have changed their dilation at the same virtual
    /// instants, and returns the changes. At every virtual instant, all then have the same rate.
    pub(crate) fn changes(&self) -> Vec<(Instant<Virtual>, Dilation)> {
        let mut alive = self.hosts.iter().filter(|host| !host.crashed);
        let first = &alive.next().expect("a host").changes;
        for host in alive {
            assert_eq!(&host.changes, first, "the dilations differ");
        }
        first.clone()
    }

    /// Returns the greatest difference between the virtual clocks of any two running hosts.
    pub(crate) fn spread(&self) -> Duration {
        let alive = (0..self.hosts.len()).filter(|index| !self.hosts[*index].crashed);
        let shown: Vec<_> = alive.map(|index| self.clock(index)).collect();
        *shown.iter().max().expect("a host") - *shown.iter().min().expect("a host")
    }
}

/// Returns the map from a host's timeline to its virtual clock after a resume.
pub(crate) fn line(resumed: Resumption) -> ClockMap<TimelineTime, Virtual> {
    ClockMap::new(resumed.at, resumed.from, resumed.dilation.rate())
}

/// Dilations that holders request.
pub(crate) const FACTORS: [f64; 5] = [0.5, 1.0, 2.0, 3.0, 10.0];
