//! Tests of byte equality with frames sent by ptp4l.

use data_encoding::HEXLOWER;
use std::collections::BTreeSet;
use timeloom_wire::{EthernetFrame, MacAddress, Message};

fn captured() -> Vec<(String, Vec<u8>)> {
    let text = include_str!("captures/ptp4l-3.1.1.hex");
    let lines = text.lines().filter(|line| !line.starts_with('#'));
    lines
        .map(|line| {
            let (kind, hex) = line.split_once(' ').expect("a kind and hex digits");
            let bytes = HEXLOWER.decode(hex.as_bytes()).expect("hex digits");
            (kind.to_owned(), bytes)
        })
        .collect()
}

#[test]
fn messages_of_ptp4l_are_parsed_and_emitted_byte_for_byte() {
    let mut types = BTreeSet::new();
    for (kind, bytes) in captured() {
        let mut buffer = [0u8; 256];
        let datagram = if kind == "ethernet" {
            let frame = EthernetFrame::parse(&bytes).unwrap();
            let length = frame.emit(&mut buffer).unwrap();
            assert_eq!(&buffer[..length], &bytes[..]);
            frame.ptp().unwrap().to_vec()
        } else {
            bytes
        };
        let message = Message::parse(&datagram).unwrap();
        let length = message.emit(&mut buffer).unwrap();
        assert_eq!(&buffer[..length], &datagram[..length], "{message:?}");
        // Only zero padding follows the message.
        assert!(datagram[length..].iter().all(|byte| *byte == 0));
        types.insert(message.header.message_type);
    }
    assert_eq!(
        types.len(),
        9,
        "all types but Signaling, which ptp4l does not send by itself: {types:?}"
    );
}

#[test]
fn addresses_are_those_that_ptp4l_uses() {
    for (kind, bytes) in captured().iter().filter(|(kind, _)| kind == "ethernet") {
        let frame = EthernetFrame::parse(bytes).unwrap();
        let message = Message::parse(frame.ptp().unwrap()).unwrap();
        assert_eq!(
            frame.destination,
            MacAddress::for_message(message.header.message_type),
            "{kind}"
        );
        assert_eq!(frame.vlan, None);
        if message.header.source.port == 1 {
            assert_eq!(
                message.header.source.clock,
                timeloom_wire::ClockIdentity::from_mac(frame.source)
            );
        }
    }
}
