//! A network that starts late, because it replaces a lost one.

use timeloom_engine::Engine;
use timeloom_net::{
    FlowId, Owner, PacketSize, Pattern, TcpConfig, TrafficConfig, TrafficSourceId, World,
};
use timeloom_time::{Duration, Instant, Virtual};

use crate::common::{GBIT, MBIT, bare, ms, pair};

struct Case {
    world: World,
    endless: FlowId,
    short: FlowId,
    future: FlowId,
    source: TrafficSourceId,
}

fn case() -> Case {
    let link = bare(GBIT, Duration::from_ms(1), 1_000);
    let (network, [from, _, to]) = pair(5, link.clone(), link);
    let mut world = network.build().unwrap();
    let mut tcp = |config| world.add_tcp(from, to, config).unwrap();
    let endless = tcp(TcpConfig {
        // The window is so small that no queue overflows.
        receive_window: 64,
        ..TcpConfig::default()
    });
    let short = tcp(TcpConfig {
        segments: Some(10),
        ..TcpConfig::default()
    });
    let future = tcp(TcpConfig {
        segments: Some(10),
        start: ms(300),
        ..TcpConfig::default()
    });
    let rate_bps = MBIT;
    let traffic = TrafficConfig::udp(Pattern::Constant { rate_bps }, PacketSize::Fixed(500));
    let source = world.add_traffic(from, to, traffic).unwrap();
    Case {
        world,
        endless,
        short,
        future,
        source,
    }
}

/// Returns the state at 400 ms of a world that started at `from`.
fn begun(world: World, from: Instant<Virtual>) -> World {
    let mut engine: Engine<World> = Engine::new(world);
    engine.run_until(from, 1);
    engine.with(|world, agenda| world.start(agenda));
    engine.run_until(ms(400), u64::MAX);
    engine.model
}

#[test]
fn sources_go_on_endless_transfers_begin_anew_and_others_do_not() {
    let (whole, late) = (case(), case());
    let (endless, short, future, source) = (whole.endless, whole.short, whole.future, whole.source);
    let [whole, late] = [begun(whole.world, ms(0)), begun(late.world, ms(200))];
    let bytes = |world: &World, flow| world.tcp(flow).delivered_bytes;
    assert!(bytes(&late, endless) > 0 && bytes(&late, endless) < bytes(&whole, endless));
    assert!(bytes(&whole, short) > 0);
    assert_eq!(
        bytes(&late, short),
        0,
        "it had begun, and would do it twice"
    );
    assert!(bytes(&whole, future) > 0);
    assert_eq!(bytes(&late, future), bytes(&whole, future));
    // The source sends 250 packets per second as without the gap; only those during the gap are
    // missing.
    let (all, rest) = (whole.traffic(source), late.traffic(source));
    assert_eq!((all.sent, rest.sent), (101, 101));
    assert_eq!(all.expected, rest.expected);
    assert_eq!(all.received - rest.received, 50, "{rest:?}");
}

/// Runs both parts up to an instant, and exchanges packets between them.
fn together(parts: &mut [Engine<World>; 2], until: Instant<Virtual>) {
    while parts[0].now() < until {
        // Each step is as long as the delay of the cable between the parts, so that no packet is
        // late.
        let next = parts[0].now() + Duration::from_ms(1);
        for part in &mut *parts {
            part.run_until(next, u64::MAX);
        }
        for here in 0..2 {
            let sent = parts[here].model.crossings();
            let packets = core::mem::take(&mut sent.packets);
            sent.clear();
            for packet in packets {
                parts[1 - here].with(|world, agenda| {
                    let late = world.take_over(&packet, &[], agenda);
                    assert_eq!(late, Some(Duration::ZERO));
                });
            }
        }
    }
}

#[test]
fn a_transfer_to_a_part_that_began_anew_is_opened_anew_from_either_side() {
    let link = bare(GBIT, Duration::from_ms(1), 1_000);
    let (network, [a, _, b]) = pair(5, link.clone(), link);
    let mut world = network.build().unwrap();
    let mut tcp = |from, to, segments| {
        let config = TcpConfig {
            receive_window: 64,
            segments,
            ..TcpConfig::default()
        };
        world.add_tcp(from, to, config).unwrap()
    };
    let flows = [tcp(a, b, None), tcp(b, a, None), tcp(a, b, Some(100_000))];
    let mut owners: Vec<Owner> = vec![0; world.nodes()];
    owners[b.0 as usize] = 1;
    let owners = owners.into();
    let begun = |here, from| {
        let mut engine: Engine<World> = Engine::new(world.part(&owners, here));
        engine.run_until(from, 1);
        engine.with(|world, agenda| world.start(agenda));
        engine
    };
    let delivered = |parts: &[Engine<World>; 2], flow| {
        let bytes = |part: &Engine<World>| part.model.tcp(flow).delivered_bytes;
        bytes(&parts[0]) + bytes(&parts[1])
    };
    let mut parts = [begun(0, ms(0)), begun(1, ms(0))];
    together(&mut parts, ms(200));
    assert!(flows.iter().all(|flow| delivered(&parts, *flow) > 0));
    // The count of bytes that b received is lost; the counters of a continue.
    let kept = parts[0].model.tcp(flows[1]).delivered_bytes;
    parts[1] = begun(1, ms(200));
    parts[0].with(|world, agenda| world.reopen(1, agenda));
    together(&mut parts, ms(400));
    assert!(delivered(&parts, flows[0]) > 0, "from the part that lived");
    let back = delivered(&parts, flows[1]);
    assert!(back > kept, "from the part that is new: {kept} and {back}");
    let broken = delivered(&parts, flows[2]);
    assert_eq!(broken, 0, "one with an end is broken off");
}
