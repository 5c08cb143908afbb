//! Tests of link rates.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::thread;
use std::time::{Duration, Instant};

use timeloom_fabric::{CaptureOptions, Fabric, Namespace, PacketCapture};

use crate::world::{H2, build, host, inside, line, ping};

/// Asserts that the throughput reaches `least` in one of several attempts, because a busy machine
/// may delay the sender or the receiver. No attempt may exceed `most`. Both limits are in Mbit/s.
fn expect_rate(fabric: &Fabric, least: f64, most: f64) {
    let mut rates = Vec::new();
    while rates.len() < 20 {
        let rate = tcp_mbit_per_s(fabric, Duration::from_secs(1));
        rates.push(rate);
        assert!(rate <= most, "{rates:?}");
        if rate >= least {
            return;
        }
    }
    panic!("never {least} Mbit/s: {rates:?}");
}

/// Returns the rate of TCP payload from h1 to h2 over `length`, in Mbit/s. The measurement begins
/// just before the connection is opened, so it includes the handshake and slow start.
fn tcp_mbit_per_s(fabric: &Fabric, length: Duration) -> f64 {
    let listener = host(fabric, "h2").tcp_listener((H2, 5001)).expect("listen");
    let (started, mut bytes) = (Instant::now(), 0);
    let mut sender = host(fabric, "h1")
        .run(|| TcpStream::connect((H2, 5001)))
        .unwrap()
        .expect("connect");
    let (mut receiver, _) = listener.accept().expect("accept");
    thread::scope(|scope| {
        // The loop ends with an error when the receiver closes the connection.
        scope.spawn(move || while sender.write_all(&[0; 65_536]).is_ok() {});
        let mut buffer = vec![0; 1 << 20];
        while started.elapsed() < length {
            bytes += receiver.read(&mut buffer).expect("data");
        }
        let rate = bytes as f64 * 8e-6 / started.elapsed().as_secs_f64();
        drop(receiver);
        rate
    })
}

#[test]
fn a_ten_megabit_link_carries_the_payload_of_ethernet() {
    let fabric = build(&line(1, Some(10_000_000)));
    // 1448 of 1538 bytes are payload, which gives 9.41 Mbit/s.
    expect_rate(&fabric, 9.0, 10.2);
    expect_bucket(fabric.fabric_namespace(), "s1-h2", "10Mbit");
}

fn answers(fabric: &Fabric) -> bool {
    ping(host(fabric, "h1"), H2, Duration::from_secs(30)).is_some()
}

#[test]
fn a_link_changes_its_rate_and_passes_no_frame_while_it_is_down() {
    let fabric = build(&line(1, None));
    let link = fabric.changing_link(["h1", "s1"], None);
    let link = link.expect("descriptors").expect("a link");
    assert!(
        fabric
            .changing_link(["h1", "h2"], None)
            .expect("descriptors")
            .is_none()
    );
    assert!(answers(&fabric), "no answer");
    let ends = [
        (host(&fabric, "h1"), "eth0"),
        (fabric.fabric_namespace(), "s1-h1"),
    ];
    let queue = |end: (&Namespace, &str)| inside(end.0, &format!("tc qdisc show dev {}", end.1));
    link.change(None, Some(false)).expect("it goes down");
    for end in ends {
        assert!(queue(end).contains("pfifo 2: root"), "{}", queue(end));
    }
    let lost = ping(host(&fabric, "h1"), H2, Duration::from_millis(300));
    assert_eq!(lost, None);
    let address = inside(host(&fabric, "h1"), "ip -4 -o address show dev eth0 up");
    assert!(
        address.contains("inet "),
        "the interface stays up: {address}"
    );
    link.change(Some(10_000_000), None).expect("it changes");
    assert!(queue(ends[1]).contains("pfifo 2: root"), "it is still down");
    link.change(None, Some(true)).expect("it goes up");
    expect_bucket(fabric.fabric_namespace(), "s1-h1", "10Mbit");
    assert!(answers(&fabric), "no answer");
    link.change(Some(20_000_000), None).expect("it changes");
    expect_bucket(fabric.fabric_namespace(), "s1-h1", "20Mbit");
}

#[test]
fn a_link_without_a_rate_has_none_after_it_was_down() {
    let fabric = build(&line(1, None));
    let link = fabric.changing_link(["s1", "h2"], None);
    let link = link.expect("descriptors").expect("a link");
    link.change(None, Some(false)).expect("it goes down");
    link.change(None, Some(true)).expect("it goes up");
    let queue = inside(host(&fabric, "h2"), "tc qdisc show dev eth0");
    assert!(
        !queue.contains("pfifo 2:") && !queue.contains("tbf"),
        "{queue}"
    );
    assert!(answers(&fabric), "no answer");
}

/// Asserts that the kernel has a token bucket of this rate which accounts for Ethernet's overhead;
/// returns the kernel's description of the bucket.
fn expect_bucket(namespace: &Namespace, interface: &str, rate: &str) -> String {
    let bucket = inside(namespace, &format!("tc -s -d qdisc show dev {interface}"));
    for expected in [
        "qdisc tbf 1:",
        &format!("rate {rate} "),
        "overhead 24",
        "mpu 84",
    ] {
        assert!(bucket.contains(expected), "{expected}: {bucket}");
    }
    bucket
}

#[test]
fn a_station_sends_through_its_own_bucket() {
    // All other links run at the machine's speed. The range is narrow, because no data may be lost
    // at the sender. 1448 of 1538 bytes are payload, which gives 18.83 Mbit/s.
    let mut spec = line(1, None);
    spec.links[0].rate_bits_per_s = Some(20_000_000);
    let fabric = build(&spec);
    expect_rate(&fabric, 18.0, 19.6);
    let bucket = expect_bucket(host(&fabric, "h1"), "eth0", "20Mbit");
    assert!(!bucket.contains("Sent 0 bytes"), "{bucket}");
    // The sender's kernel waits for room in the queue instead of dropping data (TCP small queues).
    assert!(bucket.contains("(dropped 0,"), "{bucket}");
}

/// Figures for the report: `cargo test -- --ignored --nocapture measure`.
#[test]
#[ignore = "measures for several seconds and asserts nothing"]
fn measure() {
    for switches in [1, 4] {
        for mbit in [10, 100, 1000] {
            let fabric = build(&line(switches, Some(mbit * 1_000_000)));
            let rate = tcp_mbit_per_s(&fabric, Duration::from_secs(2));
            println!("{switches} switches, {mbit} Mbit/s: TCP payload {rate:.2} Mbit/s");
        }
        let fabric = build(&line(switches, Some(1_000_000_000)));
        let tap = fabric.link_interface("h1", "s1").unwrap();
        let keep = CaptureOptions::default();
        let capture = PacketCapture::start_with(tap.namespace, tap.interface, keep, drop).unwrap();
        let rate = tcp_mbit_per_s(&fabric, Duration::from_secs(2));
        println!(
            "{switches} switches, 1000 Mbit/s recorded: {rate:.2} Mbit/s, {:?}",
            capture.stop()
        );
        let fabric = build(&line(switches, None));
        let rate = tcp_mbit_per_s(&fabric, Duration::from_secs(2));
        println!("{switches} switches, no rate: TCP payload {rate:.0} Mbit/s");
        let h1 = host(&fabric, "h1");
        let mut times: Vec<_> = (0..1000)
            .map(|_| ping(h1, H2, Duration::from_secs(1)).unwrap())
            .collect();
        times.sort();
        println!(
            "{switches} switches, ping: median {:?}, 99 % {:?}",
            times[500], times[990]
        );
    }
}
