//! Congestion marks (RFC 3168): marking by queues, and the reaction of TCP.

use crate::common::{GBIT, MBIT, bare, ms, pair, run};
use timeloom_net::{
    Control, LinkConfig, LinkStats, PacketSize, Pattern, QueueConfig, RedConfig, TcpConfig,
    TcpStats, TrafficConfig,
};
use timeloom_time::Duration;

fn codel(ecn: bool) -> QueueConfig {
    QueueConfig::CoDel {
        target: Duration::from_ms(5),
        interval: Duration::from_ms(100),
        packets: 1_000,
        ecn,
    }
}

fn red(ecn: bool) -> QueueConfig {
    QueueConfig::Red(RedConfig {
        min_threshold: 20.0,
        max_threshold: 100.0,
        max_probability: 0.05,
        weight: 0.002,
        packets: 1_000,
        ecn,
    })
}

fn slow(queue: QueueConfig) -> LinkConfig {
    bare(100 * MBIT, Duration::from_ms(10), 1_000).with_queue(queue)
}

/// Runs four flows through a link of 100 Mbit/s with this queue. Returns the statistics of the
/// flows and the link for 15 s after slow start, which fills any queue before the first mark takes
/// effect.
fn flows(queue: QueueConfig, control: Control, ecn: bool) -> (Vec<TcpStats>, LinkStats) {
    let (network, [a, router, b]) = pair(3, bare(GBIT, Duration::from_ms(10), 5_000), slow(queue));
    let port = network.port(router, 1).unwrap();
    let mut world = network.build().unwrap();
    let flows = [0, 1, 2, 3].map(|flow| {
        let config = TcpConfig {
            control,
            ecn,
            start: ms(7 * flow),
            ..TcpConfig::default()
        };
        world.add_tcp(a, b, config).unwrap()
    });
    let mut engine = run(world, ms(5_000));
    let before = (
        flows.map(|flow| engine.model.tcp(flow)),
        engine.model.link(port),
    );
    engine.run_until(ms(20_000), u64::MAX);
    let after = flows.iter().zip(before.0).map(|(flow, before)| {
        let after = engine.model.tcp(*flow);
        TcpStats {
            delivered_bytes: after.delivered_bytes - before.delivered_bytes,
            retransmitted: after.retransmitted - before.retransmitted,
            slowed_by_marks: after.slowed_by_marks - before.slowed_by_marks,
            ..after
        }
    });
    let link = engine.model.link(port);
    let link = LinkStats {
        packets: link.packets - before.1.packets,
        dropped: link.dropped - before.1.dropped,
        marked: link.marked - before.1.marked,
        waited_ns: link.waited_ns - before.1.waited_ns,
        ..link
    };
    (after.collect(), link)
}

fn mbps(stats: &[TcpStats]) -> f64 {
    let bytes: u64 = stats.iter().map(|flow| flow.delivered_bytes).sum();
    bytes as f64 * 8.0 / 15e6
}

#[test]
fn marks_replace_losses_and_keep_the_queue_as_short() {
    for queue in [codel as fn(bool) -> QueueConfig, red] {
        for control in [Control::NewReno, Control::Cubic] {
            let (dropping, dropped) = flows(queue(false), control, true);
            let (marking, marked) = flows(queue(true), control, true);
            let what = format!("{:?} {control:?}: {dropped:?} {marked:?}", queue(true));
            assert!(dropped.marked == 0 && dropped.dropped > 10, "{what}");
            assert!(marked.dropped == 0 && marked.marked > 8, "{what}");
            assert!(
                marking.iter().all(|flow| flow.retransmitted == 0),
                "{marking:?}"
            );
            let slowed: u64 = marking.iter().map(|flow| flow.slowed_by_marks).sum();
            assert!(slowed > 8 && slowed <= marked.marked, "{what}");
            assert!(mbps(&marking) > mbps(&dropping) * 0.93, "{what}");
            let wait = |link: LinkStats| link.waited_ns as f64 / link.packets as f64;
            assert!(wait(marked) < wait(dropped) * 2.0, "{what}");
        }
    }
}

#[test]
fn flows_without_ecn_are_dropped() {
    for queue in [codel(true), red(true)] {
        let (flows, link) = flows(queue.clone(), Control::NewReno, false);
        assert!(link.marked == 0 && link.dropped > 10, "{queue:?} {link:?}");
        assert!(flows.iter().all(|flow| flow.slowed_by_marks == 0));
    }
}

/// A queue finally drops the packets of a sender that ignores marks (RFC 3168, section 7).
#[test]
fn a_flood_that_claims_to_know_marks_is_dropped() {
    for queue in [red(true), codel(true)] {
        let (network, [a, router, b]) = pair(4, bare(GBIT, Duration::ZERO, 5_000), slow(queue));
        let port = network.port(router, 1).unwrap();
        let mut world = network.build().unwrap();
        let pattern = Pattern::Constant {
            rate_bps: 200 * MBIT,
        };
        let flood = TrafficConfig {
            tos: 2,
            ..TrafficConfig::udp(pattern, PacketSize::Fixed(1000))
        };
        world.add_traffic(a, b, flood).unwrap();
        let link = run(world, ms(4_000)).model.link(port);
        assert!(link.marked > 0, "{link:?}");
        // Half of the packets are above the link's rate.
        assert!(link.dropped > 40_000, "{link:?}");
    }
}

#[test]
fn at_most_one_reduction_for_each_window() {
    let (flows, _) = flows(codel(true), Control::NewReno, true);
    for flow in flows {
        // 375 round trips of 40 ms or more fit into 15 s.
        assert!(flow.slowed_by_marks <= 375, "{flow:?}");
    }
}
