//! Networks that the tests cut, and the comparison of their runs.

use timeloom_emulation::peering::exact::{self, Shared, WindowExchange};
use timeloom_emulation::peering::{Cut, partition};
use timeloom_engine::{Engine, Random};
use timeloom_net::topology::{Campus, campus, dumbbell, ring};
use timeloom_net::{
    Arrival, Control, FluidConfig, FluidId, FluidPattern, FluidStats, Impairment, LinkConfig,
    LinkStats, NetworkBuilder, Node, Owner, PacketSize, Pattern, QueueConfig, TcpConfig, TcpStats,
    TrafficConfig, TrafficStats, World,
};
use timeloom_time::{Duration, Instant};

#[derive(Clone, Copy, Debug)]
pub(crate) enum Shape {
    Dumbbell,
    Ring,
    /// Campus network with switches, ARP and random early detection.
    Campus,
    /// Network with jitter, duplication and loss on the cut links.
    Rough,
    /// Network with fluid in every part.
    Fluid,
}

impl Shape {
    pub(crate) const ALL: [Self; 5] = [
        Self::Dumbbell,
        Self::Ring,
        Self::Campus,
        Self::Rough,
        Self::Fluid,
    ];
}

/// Result of a run, which must be equal in every run of the same network.
#[derive(Debug, PartialEq)]
pub(crate) struct Report {
    pub(crate) flows: Vec<TcpStats>,
    pub(crate) sources: Vec<TrafficStats>,
    pub(crate) links: Vec<LinkStats>,
    pub(crate) fluid: Vec<FluidStats>,
    pub(crate) arrivals: Vec<Arrival>,
    pub(crate) hops: u64,
}

pub(crate) struct Found {
    pub(crate) report: Report,
    pub(crate) left: u64,
}

pub(crate) const END: Instant<timeloom_time::Virtual> = Instant::from_ns(150_000_000);

fn link(rate_bps: u64, delay_us: i64, packets: u32) -> LinkConfig {
    LinkConfig::new(rate_bps, Duration::from_us(delay_us))
        .with_queue(QueueConfig::DropTail { packets })
}

pub(crate) fn build(shape: Shape, seed: u64) -> World {
    let mut random = Random::new(seed, 77);
    let mut network = NetworkBuilder::new(seed);
    let access = link(100_000_000, 200, 40);
    let hosts: Vec<Node> = match shape {
        Shape::Dumbbell => {
            let ends = dumbbell(&mut network, "", 6, &access, &link(200_000_000, 100, 30));
            ends.left.into_iter().chain(ends.right).collect()
        }
        Shape::Ring | Shape::Fluid => {
            ring(&mut network, "", 8, &access, &link(80_000_000, 300, 30))
        }
        Shape::Campus => {
            let trunk = link(200_000_000, 150, 60);
            campus(
                &mut network,
                "",
                &Campus {
                    backbone: 4,
                    buildings: 2,
                    lans: 1,
                    hosts: 3,
                    trunk: trunk.with_queue(QueueConfig::CoDel {
                        target: Duration::from_ms(1),
                        interval: Duration::from_ms(20),
                        packets: 100,
                        ecn: false,
                    }),
                    lan: access,
                },
            )
        }
        Shape::Rough => {
            let rough = link(80_000_000, 300, 30).with_impairment(Impairment {
                loss: 0.01,
                duplication: 0.01,
                jitter: Duration::from_us(200),
                jitter_reorders: true,
                reordering: 0.0,
            });
            ring(&mut network, "", 8, &access, &rough)
        }
    };
    let mut world = network.build().expect("a network");
    let count = hosts.len() as u64;
    for flow in 0..hosts.len() {
        let from = flow as u64;
        let to = (from + 1 + random.below(count - 1)) % count;
        let config = TcpConfig {
            control: [Control::NewReno, Control::Cubic][flow % 2],
            start: Instant::from_ns(random.below(20_000_000) as i64),
            ..TcpConfig::default()
        };
        let ends = (hosts[from as usize], hosts[to as usize]);
        world.add_tcp(ends.0, ends.1, config).expect("a flow");
        let pattern = match flow % 3 {
            // The times are whole milliseconds, so that many events have the same instant.
            0 => Pattern::Constant {
                rate_bps: 8_000_000,
            },
            1 => Pattern::Poisson {
                mean: Duration::from_ms(1),
            },
            _ => Pattern::OnOff {
                rate_bps: 10_000_000,
                mean_on: Duration::from_ms(5),
                mean_off: Duration::from_ms(5),
            },
        };
        let udp = TrafficConfig::udp(pattern, PacketSize::Fixed(1_000));
        world.add_traffic(ends.1, ends.0, udp).expect("a source");
    }
    if matches!(shape, Shape::Fluid) {
        for (from, pattern) in [
            FluidPattern::Poisson {
                rate_bps: 40_000_000,
            },
            FluidConfig::tcp(Control::Cubic).pattern,
            FluidPattern::Constant {
                rate_bps: 90_000_000,
            },
        ]
        .into_iter()
        .enumerate()
        {
            let ends = (hosts[3 * from], hosts[(3 * from + 1) % hosts.len()]);
            let fluid = FluidConfig::new(pattern);
            world.add_fluid(ends.0, ends.1, fluid).expect("a flow");
        }
    }
    world
}

fn report(worlds: &mut [World], owners: &[Owner]) -> Report {
    let world_of = |node: Node| usize::from(owners[node.0 as usize]);
    let ends: Vec<(Node, Node)> = worlds[0].traffic_ends().collect();
    let (flows, sources) = worlds[0].traffic_counts();
    let flow = |index: usize| {
        let id = timeloom_net::FlowId(index as u32);
        let (sender, receiver) = (world_of(ends[index].0), world_of(ends[index].1));
        TcpStats {
            delivered_bytes: worlds[receiver].tcp(id).delivered_bytes,
            ..worlds[sender].tcp(id)
        }
    };
    let source = |index: usize| {
        let id = timeloom_net::TrafficSourceId(index as u32);
        let (sender, receiver) = ends[flows + index];
        TrafficStats {
            sent: worlds[world_of(sender)].traffic(id).sent,
            ..worlds[world_of(receiver)].traffic(id)
        }
    };
    let links = worlds[0]
        .cables()
        .map(|cable| worlds[world_of(cable.from)].link(cable.port));
    // A flow sends nothing in an engine that does not have its sender.
    let fluid = (0..worlds[0].fluid_count() as u32).map(|flow| {
        let all = worlds.iter().map(|world| world.fluid(FluidId(flow)));
        let mut sent = all.filter(|stats| stats.sent_bytes > 0.0);
        sent.next().expect("one part has it")
    });
    let mut arrivals: Vec<Arrival> = worlds.iter().flat_map(World::arrivals).copied().collect();
    arrivals.sort_by_key(|a| (a.at, a.kind as u8, a.flow, a.seq));
    let hops = worlds
        .iter()
        .map(|world| world.counters().hops)
        .sum::<u64>();
    Report {
        flows: (0..flows).map(flow).collect(),
        sources: (0..sources).map(source).collect(),
        links: links.collect(),
        fluid: fluid.collect(),
        arrivals,
        hops,
    }
}

/// Runs the network in one engine.
pub(crate) fn single(shape: Shape, seed: u64) -> Report {
    let mut world = build(shape, seed);
    world.note_arrivals();
    let owners = vec![0; world.nodes()];
    let mut engine: Engine<World> = Engine::new(world);
    engine.with(|world, agenda| world.start(agenda));
    engine.run_until(END, u64::MAX);
    report(&mut [engine.model], &owners)
}

/// Runs the network in several engines that wait for one another.
pub(crate) fn parallel(shape: Shape, seed: u64, parts: Owner) -> Found {
    parallel_over(shape, seed, parts, Shared::new(parts))
}

/// Runs the network in several engines that wait for one another, each with one of `ways` as
/// transport.
pub(crate) fn parallel_over(
    shape: Shape,
    seed: u64,
    parts: Owner,
    transports: Vec<impl WindowExchange + Send + 'static>,
) -> Found {
    let whole = build(shape, seed);
    let owners = partition::of_world(&whole, parts, Duration::from_us(100));
    let cut = Cut::new(&whole, owners.clone()).expect("a cut");
    assert_eq!(cut.engines(), parts, "each has a part");
    let threads: Vec<_> = transports
        .into_iter()
        .enumerate()
        .map(|(here, mut transport)| {
            let cut = cut.clone();
            std::thread::spawn(move || {
                let mut world = build(shape, seed);
                world.note_arrivals();
                cut.apply(&mut world, here as Owner);
                let mut engine: Engine<World> = Engine::new(world);
                engine.with(|world, agenda| world.start(agenda));
                let windows = exact::run(&mut engine, &cut, &mut transport, END).expect("all stay");
                (engine.model, windows.left)
            })
        })
        .collect();
    let (mut worlds, left): (Vec<World>, Vec<u64>) = threads
        .into_iter()
        .map(|thread| thread.join().expect("no panic"))
        .unzip();
    let lost: u64 = worlds
        .iter_mut()
        .map(|world| world.crossings().lost())
        .sum();
    let mut report = report(&mut worlds, &owners);
    // A single engine counts a packet that is lost on the cable at the end of the link.
    report.hops += lost;
    Found {
        report,
        left: left.iter().sum(),
    }
}
