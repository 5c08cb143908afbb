//! Instants at which the frames of real programs pass a network card that stamps them.

use crate::common::{MBIT, bare};
use timeloom_engine::Engine;
use timeloom_net::{Frame, LARGE, NetworkBuilder, Node, OffloadedWork, World};
use timeloom_time::{Duration, Instant, Virtual};

/// Bytes of a frame, whose transmission at 8 Mbit/s takes a microsecond each.
const BYTES: usize = 500;

/// Returns two hosts open to frames, and the cable between them with room for this many packets.
fn cable(room: u32) -> (Engine<World>, [Node; 2]) {
    let mut network = NetworkBuilder::new(7);
    let ends @ [a, b] = ["a", "b"].map(|name| network.host(name));
    network.connect(a, b, bare(8 * MBIT, Duration::from_us(300), room));
    let mut world = network.build().expect("a cable");
    ends.iter().for_each(|end| world.open_frames(*end));
    (Engine::new(world), ends)
}

fn send(engine: &mut Engine<World>, node: Node, tag: u64) {
    let mut buffer = vec![0xff; LARGE];
    buffer[6..14].copy_from_slice(&[2, 0, 0, 0, 0, 9, 0x88, 0xf7]);
    let none = OffloadedWork::default();
    engine.with(|world, agenda| {
        world.send_stamped_frame(node, (&mut buffer, BYTES), none, tag, agenda);
    });
}

fn us(us: i64) -> Instant<Virtual> {
    Instant::ZERO + Duration::from_us(us)
}

#[test]
fn a_stamped_frame_departs_and_arrives_with_its_first_bit() {
    let (mut engine, [a, b]) = cable(100);
    send(&mut engine, a, 7);
    send(&mut engine, a, 8);
    engine.run_until(us(10_000), 1_000);
    let departures: Vec<_> = std::iter::from_fn(|| engine.model.take_departure()).collect();
    let [(node, 7, Some(first)), (_, 8, Some(second))] = departures[..] else {
        panic!("{departures:?}");
    };
    let length = second - first;
    assert_eq!((node, first), (a, Instant::ZERO));
    assert!(
        length >= Duration::from_us(486),
        "the second waits for the first: {length}"
    );
    let arrival = |node, frame: Frame<'_>| (node, frame.first_bit, frame.at);
    for departed in [first, second] {
        let (node, first_bit, at) = engine.model.take_frame(arrival).expect("it arrived");
        assert_eq!((node, first_bit), (b, departed + Duration::from_us(300)));
        assert_eq!(at - first_bit, length, "store and forward");
    }
}

#[test]
fn a_stamped_frame_that_is_dropped_has_no_departure() {
    let (mut engine, [a, _]) = cable(1);
    (0..4).for_each(|tag| send(&mut engine, a, tag));
    engine.run_until(us(10_000), 1_000);
    let departures = std::iter::from_fn(|| engine.model.take_departure());
    let mut told: Vec<_> = departures.map(|(_, tag, at)| (tag, at.is_some())).collect();
    told.sort_unstable();
    assert_eq!(told, [(0, true), (1, true), (2, false), (3, false)]);
}
