//! Tests of splices of two interfaces, both closed and open.

use std::net::{Ipv4Addr, UdpSocket};
use std::time::Duration;

use timeloom_fabric::{MacAddress, Namespace, Plug, Splice, connect};
use timeloom_test_support::need_root;

const ENDS: [Ipv4Addr; 2] = [Ipv4Addr::new(10, 83, 0, 1), Ipv4Addr::new(10, 83, 0, 2)];

#[test]
fn frames_pass_while_it_is_closed_and_no_longer() {
    need_root();
    let near = Namespace::quiet("near").unwrap();
    let far = Namespace::quiet("far").unwrap();
    let middle = Namespace::quiet("middle").unwrap();
    for (number, (end, inside)) in [(&near, "up"), (&far, "down")].into_iter().enumerate() {
        let mac = |which| MacAddress([2, 0, 0, 0, number as u8, which]);
        let plug = |namespace, interface, which, address| Plug {
            namespace,
            interface,
            mac: mac(which),
            address,
        };
        let outer = plug(end, "eth0", 1, Some(ENDS[number]));
        connect(&outer, &plug(&middle, inside, 2, None)).unwrap();
    }
    let mut splice = Splice::new(&middle, ["up", "down"]).unwrap();
    let from = near.udp_socket((ENDS[0], 0)).unwrap();
    let to = far.udp_socket((ENDS[1], 7000)).unwrap();
    // The first datagram triggers address resolution.
    let passes = |within: Duration| {
        let _ = from.send_to(b"here", (ENDS[1], 7000));
        to.set_read_timeout(Some(within)).unwrap();
        to.recv(&mut [0; 8]).is_ok()
    };
    assert!(!passes(Duration::from_millis(200)), "it is open at first");
    for _ in 0..2 {
        splice.close().unwrap();
        let mut tries = 0..100;
        assert!(tries.any(|_| passes(Duration::from_millis(200))), "closed");
        splice.open().unwrap();
        drain(&to);
        assert!(!passes(Duration::from_millis(200)), "open again");
    }
}

fn drain(socket: &UdpSocket) {
    let brief = Some(Duration::from_millis(50));
    socket.set_read_timeout(brief).unwrap();
    while socket.recv(&mut [0; 8]).is_ok() {}
}
