//! Tests of a virtual machine at a station's cable. The test has the role of the emulator, and
//! holds the machine's end of the network interface.

use std::io::{ErrorKind, Read, Write};
use std::time::{Duration, Instant};

use timeloom_fabric::{MACHINE_INTERFACE, Namespace};
use timeloom_sys::tap;

use crate::world::{H1, H2, build, host, inside, line, ping};

/// MAC address of the machine 10.0.0.7, which requests h2's MAC address.
const ASKER: [u8; 6] = [0x52, 0x54, 10, 0, 0, 7];
const OWN: [u8; 4] = [10, 0, 0, 7];

#[test]
fn a_machine_has_an_address_of_its_own_and_its_host_keeps_its_own() {
    let spec = line(1, None);
    let fabric = build(&spec);
    let h1 = host(&fabric, "h1");
    let mac = fabric.mac("h1").expect("h1 has one");
    h1.attach_machine(&spec.stations[0]).expect("a card for it");
    let mut machine = h1
        .run(|| tap::create(MACHINE_INTERFACE, false).expect("its emulator opens it"))
        .expect("the namespace is there");

    // The host keeps its addresses, at an interface with the usual name.
    let card = inside(h1, "ip -o addr show dev eth0");
    assert!(card.contains("inet 10.0.0.1/16"), "{card}");
    assert!(inside(h1, "ip -o link show dev eth0").contains(&mac.to_string()));
    assert!(ping(h1, H2, Duration::from_secs(60)).is_some());

    // The machine resolves h2 and receives h2's answer. Its own host has another address.
    for (address, name) in [(H2, "h2"), (H1, "h1")] {
        let told = ask(&mut machine, address.octets());
        let expected = fabric.mac(name).expect("it has one");
        assert_eq!(told, expected.0, "{name}");
    }
    // Both hosts have learned the machine's address from the request.
    for name in ["h1", "h2"] {
        let known = neighbours(host(&fabric, name));
        assert!(known.contains("10.0.0.7"), "{name}: {known}");
        assert!(known.contains("52:54:0a:00:00:07"), "{name}: {known}");
    }
}

fn neighbours(of: &Namespace) -> String {
    inside(of, "ip -o neigh show dev eth0")
}

/// Returns the MAC address of `whom`, resolved by ARP.
fn ask(machine: &mut std::fs::File, target: [u8; 4]) -> [u8; 6] {
    let mut question = vec![0xff; 6];
    question.extend(ASKER);
    // ARP over Ethernet, for IPv4, a request.
    question.extend([8, 6, 0, 1, 8, 0, 6, 4, 0, 1]);
    question.extend(ASKER);
    question.extend(OWN);
    question.extend([0; 6]);
    question.extend(target);
    question.resize(60, 0);
    let end = Instant::now() + Duration::from_secs(60);
    let mut frame = [0; 2048];
    loop {
        assert!(Instant::now() < end, "no answer for {target:?}");
        machine.write_all(&question).expect("the card takes it");
        let again = Instant::now() + Duration::from_millis(500);
        while Instant::now() < again {
            match machine.read(&mut frame) {
                // A reply from `whom` to this machine.
                Ok(length) if length >= 42 && frame[..6] == ASKER && frame[20..22] == [0, 2] => {
                    if frame[28..32] == target {
                        return frame[22..28].try_into().expect("six bytes");
                    }
                }
                Ok(_) => {}
                Err(error) if error.kind() == ErrorKind::WouldBlock => {
                    std::thread::sleep(Duration::from_millis(5));
                }
                Err(error) => panic!("{error}"),
            }
        }
    }
}
