//! Seeded simulations of many hosts on a lossy network. All hosts pause at one virtual instant, all
//! clocks resume from one instant, and every host that requests the line is granted it.

mod world;

use timeloom_agreement::{Halt, HaltCause, LeadMode, OnSilence, Settings};
use timeloom_time::{Dilation, Duration, Instant};

use world::{Event, Network, UNCERTAINTY, World, id, settings};

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
