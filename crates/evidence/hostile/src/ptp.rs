//! Untrusted input of PTP: messages from the network, and key files.

use timeloom_wire::tlv::{SignedTlv, TlvBody};
use timeloom_wire::{EthernetFrame, Message, UdpDatagram};

/// Tests PTP messages, TLVs, Ethernet frames and UDP packets. A decoded value must not change by
/// encoding and decoding.
pub(crate) fn message(bytes: &[u8]) {
    alone(bytes);
    if let Ok(frame) = EthernetFrame::parse(bytes) {
        let mut again = vec![0; bytes.len() + 8];
        let length = frame.emit(&mut again).expect("there is room");
        assert_eq!(
            &again[..length],
            bytes,
            "every octet of a frame has its meaning"
        );
        if let Ok(payload) = frame.ptp() {
            alone(payload);
        }
        if let Ok(datagram) = UdpDatagram::parse(frame.payload) {
            let mut again = vec![0; frame.payload.len() + 40];
            let length = datagram.emit(&mut again).expect("there is room");
            assert_eq!(UdpDatagram::parse(&again[..length]), Ok(datagram));
            alone(datagram.payload);
        }
    }
}

fn alone(bytes: &[u8]) {
    let Ok(message) = Message::parse(bytes) else {
        return;
    };
    let mut again = vec![0; bytes.len() + 64];
    let length = message.emit(&mut again).expect("there is room");
    let read = Message::parse(&again[..length]).expect("what was written is read");
    assert_eq!(read, message);
    for tlv in message.tlvs.iter() {
        let _ = TlvBody::parse(tlv);
        if let Some(Ok(signed)) = SignedTlv::parse(tlv, [0x02, 0x54, 0x4c]) {
            assert_eq!(signed.entries().count(), usize::from(signed.hops));
            assert!(signed.signature().len() >= 48);
        }
    }
}

/// Tests a file of a key directory.
pub(crate) fn key_file(bytes: &[u8]) {
    if let Ok(text) = core::str::from_utf8(bytes) {
        timeloom_ptp_io::fuzzing::key_file(text);
    }
}
