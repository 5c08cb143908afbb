//! A network at the pace of a clock: paused, dilated, and in steps.

use std::cell::Cell;

use crate::common::{GBIT, MBIT, bare, ms, pair};
use timeloom_engine::{Engine, Limit, Pace, Paced, Wake};
use timeloom_net::{
    Impairment, PacketSize, Pattern, TcpConfig, TrafficConfig, TrafficSourceId, World,
};
use timeloom_time::{Duration, Instant, Rate, Wall};

/// Returns a world with a flow, and a ping every 100 ms, over a link with all random features.
fn world() -> (Engine<World>, TrafficSourceId) {
    let wire = Impairment {
        loss: 0.001,
        jitter: Duration::from_us(50),
        ..Impairment::default()
    };
    let link = bare(100 * MBIT, Duration::from_ms(5), 50).with_impairment(wire);
    let (network, [a, _, b]) = pair(6, bare(GBIT, Duration::from_ms(5), 500), link);
    let mut world = network.build().unwrap();
    world.add_tcp(a, b, TcpConfig::default()).unwrap();
    let pattern = Pattern::Constant { rate_bps: 6_720 };
    let ping = TrafficConfig {
        echo: true,
        ..TrafficConfig::udp(pattern, PacketSize::Fixed(84))
    };
    let ping = world.add_traffic(a, b, ping).unwrap();
    let mut engine = Engine::new(world);
    engine.with(|world, agenda| world.start(agenda));
    (engine, ping)
}

/// Returns all state that callers can query, as text.
fn state(engine: &Engine<World>, ping: TrafficSourceId) -> String {
    let world = &engine.model;
    format!(
        "{:?} {:?} {:?}",
        world.counters(),
        world.traffic(ping),
        engine.handled()
    )
}

fn reference() -> String {
    let (mut engine, ping) = world();
    engine.run_until(ms(2_000), u64::MAX);
    state(&engine, ping)
}

#[test]
fn steps_granted_from_outside_change_nothing() {
    let (engine, ping) = world();
    let mut paced = Paced::new(engine, Pace::Granted(Instant::ZERO), Limit::default());
    for step in 1..=20_000 {
        paced.set_pace(Pace::Granted(Instant::from_ns(step * 100_000)));
        paced.poll(|| Instant::ZERO, u64::MAX);
    }
    assert_eq!(state(&paced.engine, ping), reference());
}

#[test]
fn pauses_and_dilation_change_nothing_either() {
    let now = Cell::new(0);
    let wall = || Instant::<Wall>::from_ns(now.get());
    let (engine, ping) = world();
    let mut paced = Paced::new(engine, Pace::real(wall(), Instant::ZERO), Limit::default());
    let mut changes = 0;
    // Sleep exactly as long as requested. Every 10 ms of wall time, pause for a second (with
    // packets in flight all the time) or change the rate.
    let mut next_change = 10_000_000;
    while paced.engine.now() < ms(2_000) {
        let wake = paced.poll(wall, u64::MAX);
        let until = match wake {
            Wake::At(at) => at.as_ns().min(next_change),
            _ => next_change,
        };
        now.set(until.max(now.get()));
        if now.get() == next_change {
            let alive = paced.engine.model.packets_alive();
            let handled = paced.engine.handled();
            paced.set_rate(wall(), Rate::STOPPED);
            now.set(now.get() + 1_000_000_000);
            paced.poll(wall, u64::MAX);
            // Only events that were due exactly at the instant of the pause were still handled.
            assert!(paced.engine.handled() - handled < 100);
            assert!(paced.engine.model.packets_alive().abs_diff(alive) < 100);
            changes += 1;
            let rate = [
                Rate::ONE,
                Rate::from_ratio(1, 20).unwrap(),
                Rate::from_ratio(3, 1).unwrap(),
            ];
            paced.set_rate(wall(), rate[changes % 3]);
            next_change = now.get() + 10_000_000;
        }
        if paced
            .engine
            .next_wake()
            .is_some_and(|next| next > ms(2_000))
        {
            break;
        }
    }
    assert!(changes > 50, "{changes} pauses");
    assert_eq!(state(&paced.engine, ping), reference());
    // On this ideal machine, events are late only by rounding errors.
    assert!(
        paced.lateness().worst() <= Duration::from_ns(3),
        "{:?}",
        paced.lateness()
    );
}
