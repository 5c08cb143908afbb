//! Tests that packets travel in virtual time, which is paused, dilated or stepped.

use std::net::UdpSocket;
use std::time::{Duration as StdDuration, Instant as StdInstant};

use timeloom_net::LinkConfig;
use timeloom_time::{Duration, Instant, Rate};

use crate::world::{Setup, Testbed, build};

const DELAY: Duration = Duration::from_ms(20);

fn sockets(testbed: &Testbed) -> (UdpSocket, UdpSocket) {
    let server = testbed.namespace("b").udp_socket("0.0.0.0:9").unwrap();
    let client = testbed.namespace("a").udp_socket("0.0.0.0:0").unwrap();
    client.connect((testbed.b_address, 9)).unwrap();
    (client, server)
}

fn comes(server: &UdpSocket, within: StdDuration) -> bool {
    server.set_read_timeout(Some(within)).unwrap();
    server.recv(&mut [0; 16]).is_ok()
}

const LONG: StdDuration = StdDuration::from_secs(120);

fn link() -> LinkConfig {
    LinkConfig::new(1_000_000_000, DELAY)
}

#[test]
fn no_packet_is_early() {
    let testbed = build(link(), Setup::default());
    let (client, server) = sockets(&testbed);
    for _ in 0..10 {
        let began = StdInstant::now();
        client.send(b"x").unwrap();
        assert!(comes(&server, LONG));
        let took = began.elapsed();
        assert!(took >= StdDuration::from_millis(20), "{took:?}");
    }
}

#[test]
fn packets_in_flight_stand_still_in_a_pause() {
    let testbed = build(link(), Setup::default());
    let (client, server) = sockets(&testbed);
    // After this datagram, the addresses are resolved.
    client.send(b"x").unwrap();
    assert!(comes(&server, LONG));
    testbed.clock.set_rate(Rate::STOPPED);
    testbed.emulation.wake();
    let stood = testbed.clock.now();
    client.send(b"x").unwrap();
    assert!(!comes(&server, StdDuration::from_millis(200)));
    let report = testbed.emulation.report().unwrap();
    assert_eq!(testbed.clock.now(), stood);
    assert_eq!(report.now, stood, "the model stands with the clock");
    assert_eq!(report.packets_alive, 1, "in flight");
    testbed.clock.set_rate(Rate::ONE);
    testbed.emulation.wake();
    assert!(comes(&server, LONG));
    assert!(testbed.clock.now() - stood >= DELAY);
}

#[test]
fn no_packet_is_lost_in_many_pauses() {
    let testbed = build(link(), Setup::default());
    let (client, server) = sockets(&testbed);
    client.send(&u32::MAX.to_be_bytes()).unwrap();
    assert!(comes(&server, LONG));
    server.set_read_timeout(Some(LONG)).unwrap();
    let mut next = 0u32;
    // A batch this small fits into the receiver's socket buffer, however late the receiver reads
    // it.
    const EACH: u32 = 40;
    let send = |from: u32| {
        for number in from..from + EACH {
            client.send(&number.to_be_bytes()).unwrap();
        }
    };
    for _ in 0..50 {
        send(next);
        testbed.clock.set_rate(Rate::STOPPED);
        testbed.emulation.wake();
        send(next + EACH);
        std::thread::sleep(StdDuration::from_millis(3));
        testbed.clock.set_rate(Rate::ONE);
        testbed.emulation.wake();
        let mut got = [0; 4];
        for number in next..next + 2 * EACH {
            server.recv(&mut got).unwrap();
            assert_eq!(u32::from_be_bytes(got), number);
        }
        next += 2 * EACH;
    }
    let report = testbed.emulation.report().unwrap();
    assert_eq!(report.dropped_by_machine(), 0);
}

#[test]
fn a_dilated_network_is_slower_by_the_factor() {
    let rate = Rate::from_ratio(1, 10);
    let testbed = build(
        link(),
        Setup {
            rate,
            ..Setup::default()
        },
    );
    let (client, server) = sockets(&testbed);
    let began = StdInstant::now();
    client.send(b"x").unwrap();
    assert!(comes(&server, LONG));
    let took = began.elapsed();
    assert!(took >= StdDuration::from_millis(200), "{took:?}");
}

#[test]
fn granted_steps_are_all_that_happens() {
    let testbed = build(
        link(),
        Setup {
            steps: true,
            ..Setup::default()
        },
    );
    let (client, server) = sockets(&testbed);
    let short = StdDuration::from_millis(100);
    client.send(b"x").unwrap();
    assert!(!comes(&server, short), "nothing was granted");
    // ARP takes no virtual time on the first link. Then the packet is in flight, and the router's
    // ARP request to `b` and the reply take one delay each.
    testbed
        .emulation
        .grant(Instant::ZERO + Duration::from_ms(1));
    assert!(!comes(&server, short), "it is in flight");
    let mut granted = Instant::ZERO;
    let mut steps = 0;
    loop {
        granted += Duration::from_ms(10);
        testbed.emulation.grant(granted);
        steps += 1;
        if comes(&server, StdDuration::from_millis(50)) {
            break;
        }
        assert!(steps < 2_000);
    }
    let now = testbed.emulation.report().unwrap().now;
    assert_eq!(now, granted, "not a nanosecond more");
    assert!(now >= Instant::ZERO + DELAY);
}
