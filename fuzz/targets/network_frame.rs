//! Frames of a hostile program at a host's port of a simulated network, with
//! whatever offloads it claims. What goes in comes out, is dropped and counted;
//! no packet stays for ever.
//!
//! Input: frames, each with two bytes of length, one of claims, and two of the
//! payload of each segment.
#![no_main]

use libfuzzer_sys::fuzz_target;
use timeloom_engine::Engine;
use timeloom_net::{
    Checksum, LARGE, LinkConfig, NetworkBuilder, Offload, QueueConfig, Train, TrainProtocol, World,
};
use timeloom_time::{Duration, Instant};

fuzz_target!(|input: &[u8]| {
    let mut network = NetworkBuilder::new(1);
    let [a, b, silent, far] = ["a", "b", "silent", "far"].map(|name| network.host(name));
    let (switch, router) = (network.switch("s"), network.router("r"));
    let link = LinkConfig::new(1_000_000_000, Duration::from_us(1));
    let codel = QueueConfig::CoDel {
        target: Duration::from_ms(5),
        interval: Duration::from_ms(100),
        packets: 8,
        ecn: true,
    };
    network.connect(a, switch, link.clone());
    network.connect(
        b,
        switch,
        link.clone()
            .with_queue(QueueConfig::DropTail { packets: 4 }),
    );
    network.connect(silent, switch, link.clone());
    network.connect(switch, router, link.clone());
    network.connect(router, far, link.with_queue(codel));
    let mut world = network.build().expect("a sound network");
    world.open_frames(a);
    world.open_frames(b);
    world.open(far);
    let mut engine: Engine<World> = Engine::new(world);
    let mut buffer = vec![0; LARGE];
    let mut rest = input;
    while let [high, low, claims, payload_high, payload_low, after @ ..] = rest {
        let length = usize::from(u16::from_be_bytes([*high, *low])).min(after.len());
        let (frame, after) = after.split_at(length);
        rest = after;
        buffer.resize(LARGE, 0);
        buffer[..length].copy_from_slice(frame);
        let offload = Offload {
            train: (claims & 1 != 0).then_some(Train {
                protocol: if claims & 2 != 0 {
                    TrainProtocol::Tcp
                } else {
                    TrainProtocol::Udp
                },
                payload_bytes: u16::from_be_bytes([*payload_high, *payload_low]),
            }),
            checksum: (claims & 4 != 0).then_some(Checksum {
                start: u16::from(claims >> 3),
                offset: u16::from(*payload_low),
            }),
        };
        engine.with(|world, agenda| world.send_frame(a, &mut buffer, length, offload, agenda));
        let now = engine.now();
        engine.run_until(now + Duration::from_us(2), u64::MAX);
    }
    engine.run_until(Instant::ZERO + Duration::from_s(60), u64::MAX);
    let world = &mut engine.model;
    while world
        .take_frame(|_, frame| assert!(frame.head.len() >= 14))
        .is_some()
    {}
    while world
        .take_raw(|_, _, bytes| assert!(bytes.len() >= 20))
        .is_some()
    {}
    assert_eq!(world.packets_alive(), 0, "{:?}", world.counters());
});
