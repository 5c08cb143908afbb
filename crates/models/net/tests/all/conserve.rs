//! Random networks with random traffic: after all traffic has ended, no packet is left, none has
//! appeared from nothing, and none waits.

use crate::common::{MBIT, bare, ms, run};
use timeloom_engine::Random;
use timeloom_net::topology::{Campus, campus, fat_tree, ring, star, tree};
use timeloom_net::{
    Control, Impairment, LinkConfig, NetworkBuilder, PacketSize, Pattern, QueueConfig, RedConfig,
    TcpConfig, TrafficConfig,
};
use timeloom_time::Duration;

fn random_link(random: &mut Random) -> LinkConfig {
    let packets = 1 + random.below(60) as u32;
    let rate = MBIT * (1 + random.below(100));
    let mut link = bare(rate, Duration::from_us(random.below(3_000) as i64), packets);
    let mut maybe = |most: f64| {
        if random.chance(0.3) {
            random.unit() * most
        } else {
            0.0
        }
    };
    link.impairment = Impairment {
        loss: maybe(0.1),
        duplication: maybe(0.1),
        reordering: maybe(0.1),
        jitter: Duration::from_us(maybe(2_000.0) as i64),
        jitter_reorders: maybe(1.0) > 0.0,
    };
    link.queue = match random.below(4) {
        0 => QueueConfig::CoDel {
            target: Duration::from_ms(1 + random.below(5) as i64),
            interval: Duration::from_ms(20),
            packets,
            ecn: false,
        },
        1 => QueueConfig::Priority { packets },
        2 => {
            // RED cannot be combined with jitter and reordering.
            link.impairment.jitter = Duration::ZERO;
            link.impairment.reordering = 0.0;
            QueueConfig::Red(RedConfig {
                min_threshold: 3.0,
                max_threshold: 20.0,
                max_probability: 0.1,
                weight: 0.01,
                packets,
                ecn: false,
            })
        }
        _ => QueueConfig::DropTail { packets },
    };
    link
}

fn world(seed: u64) {
    let mut random = Random::new(seed, 99);
    let mut network = NetworkBuilder::new(seed);
    let (first, second) = (random_link(&mut random), random_link(&mut random));
    let hosts = match random.below(5) {
        0 => star(&mut network, "", 6, &first),
        1 => tree(&mut network, "", 2, 3, &first),
        2 => ring(&mut network, "", 5, &first, &second),
        3 => fat_tree(&mut network, "", 4, &first),
        _ => {
            let shape = Campus {
                backbone: 3,
                buildings: 1,
                lans: 2,
                hosts: 2,
                trunk: first,
                lan: second,
            };
            campus(&mut network, "", &shape)
        }
    };
    let mut world = network.build().unwrap();
    let (mut sources, mut flows) = (Vec::new(), Vec::new());
    for _ in 0..8 {
        let mut pick = || hosts[random.below(hosts.len() as u64) as usize];
        let (from, to) = (pick(), pick());
        if from == to {
            continue;
        }
        let config = TcpConfig {
            control: [Control::NewReno, Control::Cubic][random.below(2) as usize],
            segments: Some(random.below(400)),
            receive_window: 1 + random.below(300) as u32,
            ..TcpConfig::default()
        };
        flows.push((config.segments, world.add_tcp(from, to, config).unwrap()));
        let pattern = Pattern::Poisson {
            mean: Duration::from_us(1 + random.below(5_000) as i64),
        };
        let config = TrafficConfig {
            tos: random.bits() as u8,
            echo: random.chance(0.3),
            stop: ms(1_000),
            ..TrafficConfig::udp(pattern, PacketSize::Exponential(600.0))
        };
        sources.push(world.add_traffic(from, to, config).unwrap());
    }
    let engine = run(world, ms(100_000_000));
    assert_eq!(engine.model.packets_alive(), 0, "seed {seed}");
    assert_eq!(engine.next_wake(), None, "seed {seed}");
    for (segments, flow) in flows {
        let stats = engine.model.tcp(flow);
        let whole = segments.map(|segments| segments * 1448);
        assert_eq!(Some(stats.delivered_bytes), whole, "seed {seed}: {stats:?}");
    }
    let counters = engine.model.counters();
    assert_eq!(
        (counters.no_route, counters.bad_vlan),
        (0, 0),
        "seed {seed}"
    );
}

#[test]
fn random_networks_end_empty_and_complete() {
    for seed in 0..50 {
        world(seed);
    }
}
