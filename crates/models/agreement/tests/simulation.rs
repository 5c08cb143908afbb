//! Seeded simulations of many hosts on a lossy network. All hosts pause at one virtual instant, all
//! clocks resume from one instant, and every host that requests the line is granted it.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};

use timeloom_agreement::{
    Datagram, Halt, HaltCause, HostId, HostOrder, Hosts, LeadMode, Member, MemberAction, OnSilence,
    Resumption, Settings, TimelineReading,
};
use timeloom_clock::TimelineTime;
use timeloom_engine::Random;
use timeloom_time::{ClockMap, Dilation, Duration, Instant, Virtual};

/// Delays and losses of a simulated network.
#[derive(Clone, Copy, Debug)]
struct Network {
    loss: f64,
    duplication: f64,
    /// Minimum and maximum delay of a datagram. Because of the spread, datagrams can overtake each
    /// other.
    delay: (Duration, Duration),
}

/// Maximum error of a host's timeline.
const UNCERTAINTY: Duration = Duration::from_us(20);

struct Host {
    member: Member,
    /// Difference of the host's timeline from the true one.
    error: Duration,
    orders: std::collections::VecDeque<HostOrder>,
    /// Last resume; `None` while the host is paused.
    runs: Option<Resumption>,
    /// Changes of the dilation, each with the virtual instant from which it is in force.
    changes: Vec<(Instant<Virtual>, Dilation)>,
    /// True if the host has not carried out a change that it knows.
    postponed: bool,
    ceiling: Option<Instant<Virtual>>,
    /// Stop that the host has requested and not reached yet; [`Instant::FAR_FUTURE`] if none.
    stop: Instant<Virtual>,
    stopped: usize,
    shows: Instant<Virtual>,
    requests: usize,
    asks: bool,
    holds: bool,
    granted: usize,
    crashed: bool,
    /// Instant at which [`Member::wake`] is scheduled, if any.
    wakes: Option<Instant<TimelineTime>>,
    /// Instant at which an order will be carried out, if any.
    acts: Option<Instant<TimelineTime>>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Event {
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

struct World {
    hosts: Vec<Host>,
    network: Network,
    random: Random,
    now: Instant<TimelineTime>,
    events: BinaryHeap<Reverse<(Instant<TimelineTime>, u64, usize)>>,
    what: Vec<Event>,
    broken: Option<(usize, usize)>,
    /// True if each holder requests a dilation.
    dilates: bool,
    /// True if each holder requests a stop at a later instant.
    stops: bool,
    /// Host that changes its dilation one pause late: a deliberate error.
    late: Option<usize>,
    stands: BTreeMap<Instant<Virtual>, usize>,
    ends: BTreeMap<Instant<Virtual>, Resumption>,
    sent: usize,
}

fn id(index: usize) -> HostId {
    HostId::new(index as u8).expect("at most 64 hosts")
}

fn settings() -> Settings {
    Settings {
        patience: Duration::from_s(2),
        beat: Duration::from_ms(50),
        ..Settings::default()
    }
}

impl World {
    fn new(count: usize, seed: u64, network: Network, settings: Settings) -> Self {
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
    fn ask(&mut self, hosts: usize, times: usize, within: Duration) {
        for index in 0..hosts {
            self.hosts[index].requests = times;
            self.later(within, Event::Claim(index));
        }
    }

    fn at(&mut self, at: Instant<TimelineTime>, event: Event) {
        self.what.push(event);
        let number = self.what.len();
        let key = (at.max(self.now), number as u64, number - 1);
        self.events.push(Reverse(key));
    }

    fn later(&mut self, most: Duration, event: Event) {
        let after = self.random.below(most.as_ns() as u64) as i64;
        self.at(self.now + Duration::from_ns(after), event);
    }

    fn moment(&self, index: usize) -> TimelineReading {
        TimelineReading {
            now: self.now + self.hosts[index].error,
            uncertainty: UNCERTAINTY,
        }
    }

    /// Returns the reading of a host's virtual clock.
    fn clock(&self, index: usize) -> Instant<Virtual> {
        let host = &self.hosts[index];
        let Some(resumed) = host.runs else {
            return host.shows;
        };
        let shown = line(resumed).at(self.moment(index).now);
        let shown = shown.max(resumed.from);
        host.ceiling.map_or(shown, |ceiling| shown.min(ceiling))
    }

    fn act_at(&mut self, index: usize, due: Instant<TimelineTime>) {
        if self.hosts[index].acts.is_none_or(|other| due < other) {
            self.hosts[index].acts = Some(due);
            self.at(due, Event::Act(index));
        }
    }

    /// Runs until `over` returns true. Returns false if that takes longer than `most`, or if no
    /// event is left.
    fn run(&mut self, most: Duration, over: impl Fn(&Self) -> bool) -> bool {
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

    fn happen(&mut self, event: Event) {
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

    fn act(&mut self, index: usize) {
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

    fn settle(&mut self, index: usize) {
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
    fn obey(&mut self, index: usize) {
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

    fn all_stand_at(&self, at: Instant<Virtual>) {
        for (index, host) in self.hosts.iter().enumerate().filter(|it| !it.1.crashed) {
            assert!(host.runs.is_none(), "host {index} runs while another holds");
            assert_eq!(host.shows, at, "host {index}");
        }
    }

    fn send(&mut self, datagram: &Datagram) {
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

    fn carry(&mut self, datagram: &Datagram, pair: (usize, usize)) {
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

    fn all_run(&self) -> bool {
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
    fn changes(&self) -> Vec<(Instant<Virtual>, Dilation)> {
        let mut alive = self.hosts.iter().filter(|host| !host.crashed);
        let first = &alive.next().expect("a host").changes;
        for host in alive {
            assert_eq!(&host.changes, first, "the dilations differ");
        }
        first.clone()
    }

    /// Returns the greatest difference between the virtual clocks of any two running hosts.
    fn spread(&self) -> Duration {
        let alive = (0..self.hosts.len()).filter(|index| !self.hosts[*index].crashed);
        let shown: Vec<_> = alive.map(|index| self.clock(index)).collect();
        *shown.iter().max().expect("a host") - *shown.iter().min().expect("a host")
    }
}

/// Returns the map from a host's timeline to its virtual clock after a resume.
fn line(resumed: Resumption) -> ClockMap<TimelineTime, Virtual> {
    ClockMap::new(resumed.at, resumed.from, resumed.dilation.rate())
}

/// Dilations that holders request.
const FACTORS: [f64; 5] = [0.5, 1.0, 2.0, 3.0, 10.0];

const FAIR: Network = Network {
    loss: 0.0,
    duplication: 0.0,
    delay: (Duration::from_us(50), Duration::from_us(200)),
};

fn bad(loss: f64) -> Network {
    Network {
        loss,
        duplication: 0.05,
        delay: (Duration::from_us(20), Duration::from_ms(4)),
    }
}

/// Runs until each host was granted the line `times` times, and returns the number of pauses.
fn all_get_it(count: usize, times: usize, seed: u64, network: Network, mode: LeadMode) -> usize {
    let settings = Settings { mode, ..settings() };
    all_get_it_with(count, times, seed, network, settings).0
}

/// Does the same as [`all_get_it`] with other settings, and also returns the number of datagrams.
fn all_get_it_with(
    count: usize,
    times: usize,
    seed: u64,
    network: Network,
    settings: Settings,
) -> (usize, usize) {
    let mut world = World::new(count, seed, network, settings);
    let askers = count.min(4);
    world.ask(askers, times, Duration::from_s(1));
    assert!(
        world.run(Duration::from_s(600), World::all_run),
        "seed {seed}, {network:?}: not all got it"
    );
    let asked = &world.hosts[..askers];
    assert!(asked.iter().all(|host| host.granted == times));
    // For some hosts, the instant of the last resume may not have come yet.
    world.run(Duration::from_ms(200), |_| false);
    assert!(world.spread() <= UNCERTAINTY + UNCERTAINTY);
    assert!(world.stands.values().all(|hosts| *hosts == count));
    (world.stands.len(), world.sent)
}

/// New records go to all hosts in one datagram; to a host that did not receive it, the record is
/// sent again separately.
#[test]
fn one_datagram_to_all_replaces_one_to_each() {
    let to_all = Settings {
        to_all: true,
        ..settings()
    };
    for (seed, loss) in [(21, 0.0), (22, 0.1), (23, 0.2)] {
        let (pauses, sent) = all_get_it_with(16, 3, seed, bad(loss), to_all);
        let (_, each) = all_get_it_with(16, 3, seed, bad(loss), settings());
        assert!(pauses > 2, "{pauses}");
        assert!(sent < each, "loss {loss}: {sent} to all, {each} to each");
    }
}

#[test]
fn sixty_four_hosts_agree_despite_losses() {
    for (seed, loss) in [(1, 0.0), (2, 0.05), (3, 0.2)] {
        let pauses = all_get_it(64, 1, seed, bad(loss), LeadMode::Immediate);
        assert!(pauses > 1, "{pauses}");
    }
}

#[test]
fn few_hosts_and_many_seeds() {
    for seed in 0..60 {
        let loss = [0.0, 0.1, 0.2][seed as usize % 3];
        let pauses = all_get_it(4, 4, seed, bad(loss), LeadMode::Immediate);
        assert!(pauses > 2, "{pauses}");
    }
}

/// Returns a world in which four hosts have changed the dilation `times` times each, after all have
/// resumed.
fn dilated(count: usize, times: usize, seed: u64, loss: f64, late: Option<usize>) -> World {
    let settings = Settings {
        dilation: Dilation::new(3.0).expect("a factor"),
        ..settings()
    };
    let mut world = World::new(count, seed, bad(loss), settings);
    (world.dilates, world.late) = (true, late);
    // A change that is requested before the start would count from the start.
    assert!(world.run(Duration::from_s(60), World::all_run), "a start");
    world.ask(4, times, Duration::from_s(1));
    assert!(
        world.run(Duration::from_s(600), World::all_run),
        "seed {seed}, loss {loss}: not all got it"
    );
    world
}

/// All hosts begin at one dilation, and at every virtual instant all have the same one, whatever is
/// lost. The clocks differ by no more than the timelines, divided by the dilation.
#[test]
fn all_hosts_have_one_rate_at_every_virtual_instant() {
    let mut changes = 0;
    let worlds = [(64, 1, 31, 0.05), (64, 1, 32, 0.2)];
    let few = (0..30).map(|seed| (4, 4, 40 + seed, [0.0, 0.1, 0.2][seed as usize % 3]));
    for (count, times, seed, loss) in worlds.into_iter().chain(few) {
        let mut world = dilated(count, times, seed, loss, None);
        let changed = world.changes();
        let three = Dilation::new(3.0).expect("a factor");
        assert_eq!(changed[0], (Instant::ZERO, three), "the start");
        changes += changed.len();
        world.run(Duration::from_ms(200), |_| false);
        let apart = (UNCERTAINTY + UNCERTAINTY).as_ns() as f64;
        let apart = apart / changed.last().expect("the start").1.factor();
        let spread = world.spread().as_ns() as f64;
        assert!(spread <= apart + 1.0, "{spread} {apart}");
    }
    assert!(changes > 60, "{changes}");
}

/// Hosts request stops at later instants while others request pauses, rates and stops. Every host
/// that requests a stop is granted the line at exactly that instant, and no clock passes it.
#[test]
fn all_hosts_stop_at_requested_instants() {
    let worlds = [(64, 1, 71, 0.05), (64, 1, 72, 0.2)];
    let few = (0..24).map(|seed| (4, 5, 80 + seed, [0.0, 0.1, 0.2][seed as usize % 3]));
    let mut stopped = 0;
    for (count, times, seed, loss) in worlds.into_iter().chain(few) {
        let mut world = World::new(count, seed, bad(loss), settings());
        (world.stops, world.dilates) = (true, seed % 2 == 0);
        world.ask(4, times, Duration::from_s(1));
        assert!(
            world.run(Duration::from_s(600), World::all_run),
            "seed {seed}, loss {loss}: not all got it"
        );
        assert!(world.stands.values().all(|hosts| *hosts == count));
        stopped += world.hosts.iter().map(|host| host.stopped).sum::<usize>();
    }
    assert!(stopped > 100, "{stopped}");
}

/// The check above finds a host that changes its rate at another virtual instant than the others.
#[test]
#[should_panic(expected = "the dilations differ")]
fn a_host_that_changes_its_rate_late_is_found() {
    dilated(4, 4, 40, 0.0, Some(2)).changes();
}

/// A host that holds the line and has requested a dilation dies. Its request counts for all others
/// or for none.
#[test]
fn the_request_of_a_dead_host_counts_for_all_or_none() {
    let mut counted = 0;
    for seed in 0..60 {
        let mut world = World::new(4, seed, bad(0.1), releasing());
        assert!(world.run(Duration::from_s(60), World::all_run));
        world.dilates = true;
        world.hosts[1].requests = 1;
        world.at(world.now, Event::Claim(1));
        // The host has released the line, and its vote may be on the way.
        let released = |world: &World| world.hosts[1].granted == 1 && !world.hosts[1].holds;
        assert!(world.run(Duration::from_s(10), released));
        let more = Duration::from_us(world.random.below(6_000) as i64);
        world.run(more, |_| false);
        world.happen(Event::Crash(1));
        assert!(world.run(Duration::from_s(10), World::all_run));
        counted += usize::from(!world.changes().is_empty());
    }
    assert!(counted > 0 && counted < 60, "{counted}");
}

/// After 600 pauses, the difference between clocks is no larger than after a few.
#[test]
fn pauses_add_nothing_to_the_difference() {
    let mut world = World::new(4, 7, FAIR, settings());
    let mut spreads = Vec::new();
    for _ in 0..6 {
        world.ask(4, 50, Duration::from_ms(100));
        assert!(world.run(Duration::from_s(600), World::all_run));
        world.run(Duration::from_ms(100), |_| false);
        spreads.push(world.spread());
    }
    assert!(world.stands.len() > 200, "{}", world.stands.len());
    // The clocks differ by exactly the difference of the timelines, to the nanosecond, and the
    // difference does not grow.
    let errors = world.hosts.iter().map(|host| host.error);
    let differ = errors.clone().max().expect("hosts") - errors.min().expect("hosts");
    assert!(
        spreads.iter().all(|spread| *spread == differ),
        "{spreads:?} {differ:?}"
    );
}

/// The instant of a pause does not depend on the network, if the network is fast enough.
#[test]
fn a_scheduled_pause_is_where_it_was_asked_for() {
    let look_ahead = Duration::from_ms(20);
    let stands = |network| {
        let settings = Settings {
            mode: LeadMode::Scheduled(look_ahead),
            ..settings()
        };
        let mut world = World::new(4, 5, network, settings);
        assert!(world.run(Duration::from_s(60), World::all_run));
        let run_from = world.hosts[2].runs.expect("it runs");
        // Instant of the request, by host 2's timeline.
        let claim = run_from.at + Duration::from_s(1) - world.hosts[2].error;
        world.hosts[2].requests = 1;
        world.at(claim, Event::Claim(2));
        assert!(world.run(Duration::from_s(60), World::all_run));
        *world.stands.keys().max().expect("a pause")
    };
    let asked = Instant::ZERO + Duration::from_s(1);
    for network in [FAIR, bad(0.0)] {
        assert_eq!(stands(network), asked + look_ahead);
    }
}

fn releasing() -> Settings {
    Settings {
        on_silence: OnSilence::Release,
        patience: Duration::from_ms(600),
        ..settings()
    }
}

#[test]
fn the_hold_of_a_dead_host_is_released_within_a_second() {
    let mut world = World::new(4, 11, bad(0.05), releasing());
    assert!(world.run(Duration::from_s(60), World::all_run));
    world.hosts[1].requests = 1;
    world.at(world.now, Event::Claim(1));
    assert!(world.run(Duration::from_s(10), |world| world.hosts[1].holds));
    world.happen(Event::Crash(1));
    let crashed = world.now;
    assert!(world.run(Duration::from_s(10), World::all_run));
    let took = world.now - crashed;
    assert!(took < Duration::from_s(1), "{took:?}");
    let left = world.hosts[0].member.members();
    assert_eq!(left, [id(0), id(2), id(3)].into_iter().collect());
}

/// A single link is broken. Both of its ends are alive, as the other hosts know.
#[test]
fn a_broken_link_stops_all_and_is_named() {
    for settings in [settings(), releasing()] {
        let mut world = World::new(4, 13, FAIR, settings);
        assert!(world.run(Duration::from_s(60), World::all_run));
        world.broken = Some((1, 3));
        let stopped = |world: &World| world.hosts.iter().all(|host| host.member.halt().is_some());
        assert!(world.run(Duration::from_s(20), stopped));
        assert!(world.hosts.iter().all(|host| host.runs.is_none()));
        let halts: Vec<Halt> = world
            .hosts
            .iter()
            .filter_map(|it| it.member.halt())
            .collect();
        let names = |halt: &Halt| match halt.why {
            HaltCause::Silent(other) | HaltCause::Link(other) => {
                [(id(1), id(3)), (id(3), id(1))].contains(&(halt.by, other))
            }
            _ => false,
        };
        assert!(halts.iter().all(names), "{halts:?}");
    }
}

/// A partition that contains half of the hosts or fewer does not go on alone.
#[test]
fn two_of_four_do_not_go_on_alone() {
    let mut world = World::new(4, 17, FAIR, releasing());
    assert!(world.run(Duration::from_s(60), World::all_run));
    world.happen(Event::Crash(2));
    world.happen(Event::Crash(3));
    let stopped = |world: &World| {
        let mut alive = world.hosts.iter().filter(|host| !host.crashed);
        alive.all(|host| host.member.halt().is_some())
    };
    assert!(world.run(Duration::from_s(20), stopped));
    assert_eq!(world.hosts[0].member.why(), Some(HaltCause::Minority));
}
