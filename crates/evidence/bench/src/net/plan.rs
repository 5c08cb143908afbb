//! Estimate of the speed of a thousand engines, each on its own machine, by simulation.
//!
//! A network of a thousand sites is cut into more and more parts. The parts run one after the other
//! in one thread, window by window as in `timeloom_emulation::peering::exact`, and the events, sent packets
//! and received packets of each engine in each window are counted. Only unit costs are measured:
//! those of one event, one packet between engines, one datagram, and one agreement of two threads.
//!
//! The estimate does not include the delay that a network between machines adds to that of a cable,
//! and differences between clocks. Both reduce the millisecond that a packet takes between two
//! sites.

use std::time;

use timeloom_emulation::peering::Cut;
use timeloom_emulation::peering::exact::{self, PacketBatch, Shared, WindowExchange};
use timeloom_emulation::peering::partition;
use timeloom_emulation::peering::peer::PeerConfig;
use timeloom_engine::{Engine, Random};
use timeloom_net::{LinkConfig, NetworkBuilder, Owner, PacketSize, Pattern, TrafficConfig, World};
use timeloom_run::exit::note;
use timeloom_time::{Duration, Instant, Virtual};

use super::model::{go_first, own_core, refused, thread_cpu_s};
use super::pair::{on_threads, started};
use super::plot::Table;
use super::wire;
use crate::error::BenchError;

/// Size of the network, and the simulated time.
struct Extent {
    sites: u32,
    hosts: u32,
    simulated: Duration,
}

/// Delay of cables between sites, which is the lookahead of the engines.
const BETWEEN: Duration = Duration::from_ms(1);
/// Rate of each host in bit/s; the item below is the size of its datagrams. One datagram in ten
/// goes to another site.
const SOURCE_BPS: u64 = 1_000_000;
const DATAGRAM: u16 = 500;
const FAR: u32 = 10;
const SEED: u64 = 18;

/// Returns a ring of sites, each with a cable to one more site that is chosen at random. The length
/// of paths then grows with the logarithm of the number of sites.
fn network(size: &Extent) -> Result<World, BenchError> {
    let mut random = Random::new(SEED, 0);
    let mut network = NetworkBuilder::new(SEED);
    let access = LinkConfig::new(1_000_000_000, Duration::from_us(10));
    let between = LinkConfig::new(10_000_000_000, BETWEEN);
    let mut hosts = Vec::new();
    let mut routers = Vec::new();
    for site in 0..size.sites {
        let router = network.router(format!("r{site}"));
        for number in 0..size.hosts {
            let host = network.host(format!("h{site}-{number}"));
            network.connect(host, router, access.clone());
            hosts.push(host);
        }
        routers.push(router);
    }
    let mut drawn = |most: u32| random.below(u64::from(most)) as usize;
    for (site, router) in routers.iter().enumerate() {
        let next = (site + 1) % routers.len();
        let other = (next + 1 + drawn(size.sites - 3)) % routers.len();
        network.connect(*router, routers[next], between.clone());
        network.connect(*router, routers[other], between.clone());
    }
    let mut world = network.build().map_err(refused)?;
    for (index, from) in hosts.iter().enumerate() {
        let near = |number: usize| {
            let first = index - index % size.hosts as usize;
            first + (index + 1 + number) % size.hosts as usize
        };
        let to = match index as u32 % FAR {
            0 => drawn(hosts.len() as u32),
            _ => near(drawn(size.hosts - 1)),
        };
        if to == index {
            continue;
        }
        let pattern = Pattern::Constant {
            rate_bps: SOURCE_BPS,
        };
        let config = TrafficConfig {
            start: Instant::from_ns(drawn(4_000_000) as i64),
            ..TrafficConfig::udp(pattern, PacketSize::Fixed(DATAGRAM))
        };
        world
            .add_traffic(*from, hosts[to], config)
            .map_err(refused)?;
    }
    Ok(world)
}

/// Events and packets of one engine.
#[derive(Clone, Default)]
struct Count {
    events: u64,
    /// Number of packets sent, by neighbour.
    sent: Vec<u64>,
    heard: u64,
}

/// Events and packets of all engines.
struct Counts {
    engines: Vec<Count>,
    windows: u64,
    /// Number of events of the busiest engine of each window, summed over all windows.
    busiest: u64,
}

impl Counts {
    fn events(&self) -> u64 {
        self.engines.iter().map(|one| one.events).sum()
    }
}

/// Runs all parts in one thread, and counts events and packets.
fn count(world: &World, cut: &Cut, simulated: Duration) -> Counts {
    let number = usize::from(cut.engines());
    let mut parts: Vec<Engine<World>> = (0..cut.engines())
        .map(|here| started(cut.part(world, here), false))
        .collect();
    let none = Count {
        sent: vec![0; number],
        ..Count::default()
    };
    let mut counts = Counts {
        engines: vec![none; number],
        windows: 0,
        busiest: 0,
    };
    let end = Instant::ZERO + simulated;
    loop {
        for here in 0..number {
            let left = std::mem::take(&mut parts[here].model.crossings().packets);
            for packet in &left {
                let there = usize::from(cut.end(packet.link).expect("a link of this network"));
                parts[there].with(|world, agenda| world.take_over(packet, &[], agenda));
                counts.engines[here].sent[there] += 1;
                counts.engines[there].heard += 1;
            }
        }
        let least = parts.iter().filter_map(Engine::next_wake).min();
        let Some(least) = least.filter(|least| *least <= end) else {
            return counts;
        };
        let limit = match cut.lookahead() {
            Duration::MAX => end,
            ahead => end.min(least + ahead - Duration::from_ns(1)),
        };
        let mut most = 0;
        for (part, count) in parts.iter_mut().zip(&mut counts.engines) {
            let before = part.handled();
            part.run_until(limit, u64::MAX);
            let events = part.handled() - before;
            count.events += events;
            most = most.max(events);
        }
        counts.windows += 1;
        counts.busiest += most;
    }
}

/// Unit costs on this machine, in seconds.
struct Costs {
    event: f64,
    /// Cost of a packet in a datagram with others: for sending, and for receiving.
    packet: [f64; 2],
    /// Cost of a datagram, for sending and receiving together.
    datagram: f64,
    /// Cost of an agreement of two threads without other work.
    agreement: f64,
}

impl Costs {
    fn measure(world: &World, simulated: Duration) -> Result<Self, BenchError> {
        let run = |_, whole: Option<World>| {
            go_first();
            let mut engine = started(whole.expect("one for it"), false);
            let cpu = thread_cpu_s();
            engine.run_until(Instant::ZERO + simulated, u64::MAX);
            Ok((thread_cpu_s() - cpu) / engine.handled() as f64)
        };
        let event = on_threads(1, run, vec![whole(world)])?[0];
        let wire = wire::costs()?;
        Ok(Self {
            event,
            packet: wire.packet,
            datagram: wire.datagram,
            agreement: agreement()?,
        })
    }
}

const AGREEMENTS: u32 = 20_000;

fn agreement() -> Result<f64, BenchError> {
    let run = |here: Owner, shared: Option<Shared>| {
        let mut shared = shared.expect("one for each");
        own_core(here.into());
        go_first();
        let (mut leaving, mut arriving) = (vec![PacketBatch::default(); 2], PacketBatch::default());
        let begun = time::Instant::now();
        for round in 0..AGREEMENTS {
            let next: Instant<Virtual> = Instant::from_ns(round.into());
            shared
                .exchange(next, &mut leaving, &mut arriving)
                .map_err(|error| BenchError::Worker(error.to_string()))?;
        }
        Ok(begun.elapsed().as_secs_f64() / f64::from(AGREEMENTS))
    };
    Ok(on_threads(2, run, Shared::new(2))?[0])
}

/// Returns the whole network, for a single engine.
fn whole(world: &World) -> World {
    world.part(&vec![0; world.nodes()].into(), 0)
}

/// Measures the speed of two threads divided by that of one.
fn two_over_one(world: &World, cut: &Cut, simulated: Duration) -> Result<f64, BenchError> {
    let end = Instant::ZERO + simulated;
    let one = |_, whole: Option<World>| {
        go_first();
        let mut engine = started(whole.expect("one for it"), false);
        let wall = time::Instant::now();
        engine.run_until(end, u64::MAX);
        Ok(wall.elapsed().as_secs_f64())
    };
    let two = |here: Owner, tools: Option<(World, Shared)>| {
        let (part, mut shared) = tools.expect("one for each");
        own_core(here.into());
        let mut engine = started(part, false);
        go_first();
        let wall = time::Instant::now();
        exact::run(&mut engine, cut, &mut shared, end)
            .map_err(|error| BenchError::Worker(error.to_string()))?;
        Ok(wall.elapsed().as_secs_f64())
    };
    let mut ratios = Vec::new();
    for _ in 0..5 {
        let one = on_threads(1, one, vec![whole(world)])?[0];
        let parts = [0, 1].map(|here| cut.part(world, here));
        let two = on_threads(2, two, parts.into_iter().zip(Shared::new(2)).collect())?;
        ratios.push(one / two.into_iter().fold(0.0, f64::max));
    }
    Ok(crate::median(&ratios))
}

/// Returns the number of datagrams per second to one neighbour for this number of packets per
/// second. The first packet waits for `hold`, and packets that arrive meanwhile are sent in the
/// same datagram.
fn datagrams_per_s(packets_per_s: f64, hold: Duration) -> f64 {
    packets_per_s / (1.0 + packets_per_s * hold.as_s_f64())
}

/// Returns the fraction of a processor that an engine needs to keep up with real time.
fn load(count: &Count, costs: &Costs, simulated_s: f64) -> f64 {
    let hold = PeerConfig::default().bulk.hold;
    let datagrams = |packets: u64| datagrams_per_s(packets as f64 / simulated_s, hold);
    let sent: u64 = count.sent.iter().sum();
    let out: f64 = count.sent.iter().map(|packets| datagrams(*packets)).sum();
    // Traffic is symmetric, so as many packets arrive as are sent.
    let packets = sent as f64 * costs.packet[0] + count.heard as f64 * costs.packet[1];
    (count.events as f64 * costs.event + packets) / simulated_s + 2.0 * out * costs.datagram
}

/// Returns the row for one number of engines, and prints it to stderr.
fn row(counts: &Counts, costs: &Costs, simulated_s: f64) -> Vec<f64> {
    let events = counts.events() as f64;
    let number = counts.engines.len() as f64;
    let most = counts.engines.iter().map(|one| one.events).max();
    let neighbours = |one: &Count| one.sent.iter().filter(|packets| **packets > 0).count();
    let crossing: u64 = counts.engines.iter().map(|one| one.heard).sum();
    // Agreements form a tree, each between two threads.
    let agreeing = counts.windows as f64 * costs.agreement * number.log2().ceil();
    let busiest = counts
        .engines
        .iter()
        .map(|one| load(one, costs, simulated_s));
    vec![
        events / counts.busiest as f64,
        events * costs.event / (counts.busiest as f64 * costs.event + agreeing),
        most.unwrap_or(0) as f64 * number / events,
        busiest.fold(0.0, f64::max),
        crossing as f64 / events,
        counts.engines.iter().map(neighbours).max().unwrap_or(0) as f64,
    ]
}

const COLUMNS: [&str; 7] = [
    "as fast as one, exact, at most",
    "the same with agreements",
    "work of the busiest over the mean",
    "processors it needs in real time",
    "packets that cross, of an event",
    "neighbours, at most",
    "two threads over one, measured",
];

/// Returns the rows from a single engine to one per site.
pub(super) fn table(quick: bool) -> Result<Table, BenchError> {
    let size = match quick {
        true => Extent {
            sites: 40,
            hosts: 10,
            simulated: Duration::from_ms(20),
        },
        false => Extent {
            sites: 1_000,
            hosts: 20,
            simulated: Duration::from_ms(100),
        },
    };
    let world = network(&size)?;
    let costs = Costs::measure(&world, size.simulated)?;
    let ns = |seconds: f64| seconds * 1e9;
    note!(
        "costs: an event {:.0} ns, a packet to another engine {:.0} and {:.0} ns, a datagram {:.0} ns, an agreement {:.0} ns",
        ns(costs.event),
        ns(costs.packet[0]),
        ns(costs.packet[1]),
        ns(costs.datagram),
        ns(costs.agreement),
    );
    let mut rows = Vec::new();
    for engines in [1, 2, 4, 10, 32, 100, 316, 1_000] {
        if u32::from(engines) > size.sites {
            break;
        }
        let owners = partition::of_world(&world, engines, BETWEEN);
        let cut =
            Cut::new(&world, owners).map_err(|error| BenchError::Worker(error.to_string()))?;
        let counts = count(&world, &cut, size.simulated);
        let mut row = row(&counts, &costs, size.simulated.as_s_f64());
        row.push(match engines {
            2 => two_over_one(&world, &cut, size.simulated)?,
            _ => f64::NAN,
        });
        note!("{} engines: {row:.3?}", cut.engines());
        rows.push((f64::from(cut.engines()), row));
    }
    Ok(Table {
        name: "plan",
        title: "A network of a thousand sites in up to a thousand engines: a plan",
        x: "engines",
        y: "",
        log: true,
        columns: COLUMNS.to_vec(),
        beside: 5,
        rows,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The counts do not depend on the cut, and the busiest engine of a window has at least the
    /// mean number of events.
    #[test]
    fn counts_depend_on_the_network_and_not_on_the_cut() {
        let size = Extent {
            sites: 12,
            hosts: 4,
            simulated: Duration::from_ms(10),
        };
        let world = network(&size).expect("sound");
        let counted = [1, 3, 12].map(|engines| {
            let owners = partition::of_world(&world, engines, BETWEEN);
            let cut = Cut::new(&world, owners).expect("cables with a delay");
            assert_eq!(cut.engines(), engines);
            count(&world, &cut, size.simulated)
        });
        for counts in &counted {
            assert_eq!(counts.events(), counted[0].events());
            let engines = counts.engines.len() as u64;
            assert!(counts.busiest * engines >= counts.events());
            assert!(counts.busiest <= counts.events());
            let sent: u64 = counts.engines.iter().flat_map(|one| &one.sent).sum();
            assert_eq!(
                sent,
                counts.engines.iter().map(|one| one.heard).sum::<u64>()
            );
        }
        assert_eq!(counted[0].busiest, counted[0].events());
        assert_eq!(counted[0].engines[0].heard, 0);
        assert!(counted[2].engines.iter().any(|one| one.heard > 0));
    }

    #[test]
    fn datagrams_are_as_many_as_packets_or_as_fit_into_a_second() {
        let hold = Duration::from_us(50);
        assert!((datagrams_per_s(10.0, hold) - 10.0).abs() < 0.01);
        assert!((datagrams_per_s(1e9, hold) - 20_000.0).abs() < 1.0);
    }
}
