//! Tests of CUBIC in virtual time.

use std::io::{Read, Write};
use std::net::{IpAddr, TcpListener, TcpStream};

use timeloom_fabric::{Namespace, VirtualCubic};
use timeloom_time::Instant;

use crate::world::{H1, H2, build, host, inside, line};

#[test]
fn connections_have_cubic_in_virtual_time_until_it_is_dropped() {
    let fabric = build(&line(1, None));
    let (h1, h2) = (host(&fabric, "h1"), host(&fabric, "h2"));
    let cubic = VirtualCubic::register().expect("Linux 6.4 with BTF, as root");
    let other = VirtualCubic::register().expect("two sessions have one each");
    assert_ne!(cubic.name(), other.name());
    drop(other);
    let select = format!(
        "sysctl -qw net.ipv4.tcp_congestion_control={}",
        cubic.name()
    );
    inside(h2, &select);

    let (mut sender, mut receiver) = connected(h1, h2);
    // More than the socket buffers hold, and so that the time moves on in the middle of it.
    let sending = std::thread::spawn(move || {
        sender.write_all(&[7; 8_000_000]).expect("all is sent");
        sender
    });
    let mut received = vec![0; 8_000_000];
    for (number, part) in received.chunks_mut(100_000).enumerate() {
        receiver.read_exact(part).expect("all arrives");
        cubic.set_time(Instant::from_ns(1_000_000 * number as i64));
    }
    assert!(received.iter().all(|byte| *byte == 7));
    let own = inside(h2, "ss -tin");
    assert!(own.contains(cubic.name()), "{own}");

    // A connection outlives the registration, with the same congestion control.
    let name = cubic.name().to_owned();
    drop(cubic);
    let mut sender = sending.join().expect("no panic");
    sender.write_all(&[8; 1000]).expect("sent");
    receiver.read_exact(&mut received[..1000]).expect("arrives");
    let there = inside(
        h1,
        "cat /proc/sys/net/ipv4/tcp_available_congestion_control",
    );
    assert!(!there.split_whitespace().any(|it| it == name), "{there}");
}

/// Returns a connection from `h2` to `h1`.
fn connected(h1: &Namespace, h2: &Namespace) -> (TcpStream, TcpStream) {
    let listener = h1.run(|| TcpListener::bind((H1, 7000)));
    let listener = listener.expect("a namespace").expect("a free port");
    let sender = h2.run(|| TcpStream::connect((H1, 7000)));
    let sender = sender.expect("a namespace").expect("a listener");
    let (receiver, from) = listener.accept().expect("a connection");
    assert_eq!(from.ip(), IpAddr::from(H2));
    (sender, receiver)
}
