//! PTP messages, TLVs, Ethernet frames and UDP packets: what parses is written
//! again and reads the same.
#![no_main]

use libfuzzer_sys::fuzz_target;
use timeloom_wire::tlv::{SignedTlv, TlvBody};
use timeloom_wire::{EthernetFrame, Message, UdpDatagram};

fuzz_target!(|bytes: &[u8]| {
    message(bytes);
    if let Ok(frame) = EthernetFrame::parse(bytes) {
        let mut again = vec![0; bytes.len() + 8];
        let length = frame.emit(&mut again).expect("there is room");
        assert_eq!(
            &again[..length],
            bytes,
            "every octet of a frame has its meaning"
        );
        if let Ok(payload) = frame.ptp() {
            message(payload);
        }
        if let Ok(datagram) = UdpDatagram::parse(frame.payload) {
            let mut again = vec![0; frame.payload.len() + 40];
            let length = datagram.emit(&mut again).expect("there is room");
            assert_eq!(UdpDatagram::parse(&again[..length]), Ok(datagram));
            message(datagram.payload);
        }
    }
});

fn message(bytes: &[u8]) {
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
