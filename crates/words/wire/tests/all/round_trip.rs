//! Round trips of every message and TLV, from values to bytes and from bytes to values. Arbitrary
//! bytes are rejected without a panic.

use crate::strategies::{message, tlv_bytes};
use proptest::prelude::*;
use timeloom_wire::tlv::{SignedTlv, TlvBody, TlvType, TlvWriter, Tlvs};
use timeloom_wire::{
    EthernetFrame, Flags, Header, MacAddress, Message, ParseError, TimeInterval, UdpDatagram,
    UdpFamily, VlanTag,
};

fn tlv_body_again<'a>(body: &TlvBody<'_>, kind: TlvType, buffer: &'a mut [u8]) -> Tlvs<'a> {
    let mut writer = TlvWriter::new(buffer);
    writer
        .push(kind, |to| match body {
            TlvBody::Management(x) => x.emit(to),
            TlvBody::ManagementErrorStatus(x) => x.emit(to),
            TlvBody::UnicastRequest(x) => x.emit(to),
            TlvBody::UnicastGrant(x) => x.emit(to),
            TlvBody::UnicastCancel(x) | TlvBody::UnicastCancelled(x) => x.emit(to),
            TlvBody::PathTrace(x) => x.emit(to),
            TlvBody::AlternateTimeOffset(x) => x.emit(to),
            TlvBody::PowerProfile(x) => x.emit(to),
            TlvBody::Organization(x) => x.emit(to),
            TlvBody::Authentication(x) => x.emit(to),
            TlvBody::Other(x) => to.put(x.value),
        })
        .unwrap();
    writer.finish()
}

proptest! {
    #[test]
    fn messages(template in message(), tlvs in tlv_bytes(), padding in 0usize..20) {
        let message = template.with_tlvs(Tlvs::parse(&tlvs).unwrap());
        let mut buffer = [0u8; 2048];
        let length = message.emit(&mut buffer).unwrap();
        // Bytes after the message, such as padding, are ignored.
        buffer[length..length + padding].fill(0xa5);
        let read = Message::parse(&buffer[..length + padding]).unwrap();
        prop_assert_eq!(read, message);
        let mut again = [0u8; 2048];
        prop_assert_eq!(read.emit(&mut again).unwrap(), length);
        prop_assert_eq!(&again[..length], &buffer[..length]);
        for cut in 0..length {
            prop_assert!(Message::parse(&buffer[..cut]).is_err(), "cut at {cut}");
        }
        prop_assert!(message.emit(&mut again[..length - 1]).is_err());
    }

    #[test]
    fn tlv_values(tlvs in tlv_bytes()) {
        for tlv in Tlvs::parse(&tlvs).unwrap().iter() {
            let body = TlvBody::parse(tlv).unwrap();
            let mut buffer = [0u8; 2048];
            let again = tlv_body_again(&body, tlv.kind, &mut buffer);
            let read = again.iter().next().unwrap();
            prop_assert_eq!(TlvBody::parse(read).unwrap(), body);
        }
    }

    #[test]
    fn arbitrary_bytes_never_panic(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
        let _ = EthernetFrame::parse(&bytes);
        let _ = UdpDatagram::parse(&bytes);
        let _ = Header::version_of(&bytes);
        let _ = Message::parse(&bytes);
    }

    #[test]
    fn damaged_messages_never_panic(template in message(), tlvs in tlv_bytes(),
            damage in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..8)) {
        let message = template.with_tlvs(Tlvs::parse(&tlvs).unwrap());
        let mut buffer = [0u8; 2048];
        let length = message.emit(&mut buffer).unwrap();
        for (at, value) in damage {
            buffer[at.index(length)] = value;
        }
        if let Ok(read) = Message::parse(&buffer[..length]) {
            for tlv in read.tlvs.iter() {
                let _ = TlvBody::parse(tlv);
                let _ = SignedTlv::parse(tlv, [0, 0, 0]);
            }
        }
    }

    #[test]
    fn ethernet(destination: [u8; 6], source: [u8; 6], tci in prop::option::of(any::<u16>()),
            payload in prop::collection::vec(any::<u8>(), 0..100)) {
        let frame = EthernetFrame {
            destination: MacAddress(destination), source: MacAddress(source),
            vlan: tci.map(VlanTag::from_tci), ethertype: 0x88f7, payload: &payload,
        };
        let mut buffer = [0u8; 128];
        let length = frame.emit(&mut buffer).unwrap();
        prop_assert_eq!(EthernetFrame::parse(&buffer[..length]).unwrap(), frame);
        prop_assert_eq!(tci, frame.vlan.map(VlanTag::tci));
    }

    #[test]
    fn udp(addresses: ([u8; 4], [u8; 4], [u8; 16], [u8; 16]), six: bool, event: bool, hop_limit: u8, source_port: u16,
            payload in prop::collection::vec(any::<u8>(), 0..100), flip in any::<prop::sample::Index>()) {
        let (a, b, c, d) = addresses;
        let datagram = UdpDatagram {
            family: if six { UdpFamily::V6(c, d) } else { UdpFamily::V4(a, b) },
            hop_limit, source_port, destination_port: if event { 319 } else { 320 }, payload: &payload,
        };
        let mut buffer = [0u8; 200];
        let length = datagram.emit(&mut buffer).unwrap();
        prop_assert_eq!(UdpDatagram::parse(&buffer[..length]).unwrap(), datagram);
        // A single flipped bit of the payload makes the checksum wrong.
        if !payload.is_empty() {
            let at = length - 1 - flip.index(payload.len());
            buffer[at] ^= 0x10;
            prop_assert_eq!(UdpDatagram::parse(&buffer[..length]), Err(ParseError::Ip));
        }
    }

    #[test]
    fn correction_is_patched_in_place(template in message(), correction: i64) {
        let mut buffer = [0u8; 256];
        let length = template.emit(&mut buffer).unwrap();
        timeloom_wire::message::patch_correction(&mut buffer[..length], TimeInterval(correction)).unwrap();
        timeloom_wire::message::patch_flags(&mut buffer[..length], Flags::TWO_STEP).unwrap();
        let mut expected = template;
        expected.header.correction = TimeInterval(correction);
        expected.header.flags = Flags::TWO_STEP;
        prop_assert_eq!(Message::parse(&buffer[..length]).unwrap(), expected);
    }
}

#[test]
fn reasons_are_told_apart() {
    let mut buffer = [0u8; 64];
    let sync = Message::new(
        Header::new(timeloom_wire::MessageType::Sync, Default::default(), 7),
        timeloom_wire::message::Sync::default(),
    );
    assert_eq!(sync.emit(&mut buffer), Ok(44));
    let with = |at: usize, value: u8| {
        let mut bytes = buffer;
        bytes[at] = value;
        Message::parse(&bytes[..50]).unwrap_err()
    };
    assert_eq!(with(1, 3), ParseError::Version);
    assert_eq!(with(0, 4), ParseError::MessageType);
    assert_eq!(with(3, 20), ParseError::MessageLength);
    assert_eq!(with(3, 43), ParseError::MessageLength);
    assert_eq!(with(3, 51), ParseError::MessageLength);
    assert_eq!(with(40, 0xff), ParseError::Nanoseconds);
    assert_eq!(with(3, 46), ParseError::TlvOverrun);
    let mut odd = buffer;
    odd[3] = 49;
    odd[47] = 1;
    assert_eq!(Message::parse(&odd[..49]), Err(ParseError::OddTlv));
}

#[test]
fn versions_are_told_apart() {
    use timeloom_wire::Version;
    assert_eq!(Header::version_of(&[0x00, 0x01, 0, 1]), Ok(Version::V1));
    assert_eq!(Header::version_of(&[0x0b, 0x12]), Ok(Version::V2));
    assert_eq!(Header::version_of(&[0x0b, 0x03]), Ok(Version::Unknown(3)));
    assert_eq!(Header::version_of(&[0x0b]), Err(ParseError::Truncated));
}
