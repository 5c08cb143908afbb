//! Conversion between PTP messages and frames of the network.

use timeloom_net::{FrameView, ReceivedFrame};
use timeloom_ptp::{PtpPacket, Transport};
use timeloom_wire::{
    ETHERTYPE_PTP, EthernetFrame, MacAddress, MessageType, UDP_EVENT_PORT, UDP_GENERAL_PORT,
    UdpDatagram, UdpFamily, VlanTag,
};

/// Addresses of a sender, as needed by both transports.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Sender {
    pub(crate) mac: [u8; 6],
    pub(crate) address: [u8; 4],
}

const ETHERTYPE_VLAN: u16 = 0x8100;
const ETHERTYPE_IPV4: u16 = 0x0800;
const PROTOCOL_UDP: u8 = 17;

/// Returns true if a frame is multicast PTP over this transport.
pub(crate) fn carries(transport: Transport, glance: &FrameView<'_>) -> bool {
    let inner = glance.inner;
    match transport {
        Transport::Layer2 => {
            let groups = [MacAddress::PTP_PRIMARY, MacAddress::PTP_PEER_DELAY];
            let is_ptp = match glance.ethertype {
                ETHERTYPE_PTP => true,
                ETHERTYPE_VLAN => inner.get(2..4) == Some(&ETHERTYPE_PTP.to_be_bytes()),
                _ => false,
            };
            is_ptp && groups.contains(&MacAddress(glance.destination))
        }
        Transport::Udp4 => {
            let groups = [UdpFamily::V4_PRIMARY, UdpFamily::V4_PEER_DELAY];
            let ports = [UDP_EVENT_PORT, UDP_GENERAL_PORT].map(u16::to_be_bytes);
            glance.ethertype == ETHERTYPE_IPV4
                && inner.first() == Some(&0x45)
                && inner.get(9) == Some(&PROTOCOL_UDP)
                && groups.iter().any(|to| inner.get(16..20) == Some(to))
                && ports.iter().any(|to| inner.get(22..24) == Some(to))
        }
    }
}

/// Returns the PTP message of a frame and its sender; `None` if the headers are invalid.
pub(crate) fn open(transport: Transport, frame: &ReceivedFrame<'_>) -> Option<(PtpPacket, Sender)> {
    let mut sender = Sender {
        mac: frame.source,
        address: [0; 4],
    };
    let packet = match (transport, frame.ethertype) {
        (Transport::Layer2, ETHERTYPE_VLAN) => {
            let (tag, message) = frame.inner.split_at_checked(4)?;
            let tag = VlanTag::from_tci(u16::from_be_bytes([tag[0], tag[1]]));
            PtpPacket::received(message, Some(tag))
        }
        (Transport::Layer2, _) => PtpPacket::received(frame.inner, None),
        (Transport::Udp4, _) => {
            let datagram = UdpDatagram::parse(frame.inner).ok()?;
            if let UdpFamily::V4(source, _) = datagram.family {
                sender.address = source;
            }
            PtpPacket::received(datagram.payload, None)
        }
    };
    Some((packet, sender))
}

/// Returns a frame that contains the message; `None` if it would be too long.
pub(crate) fn close(transport: Transport, packet: &PtpPacket, sender: Sender) -> Option<Vec<u8>> {
    let mut frame = vec![0; packet.bytes.len() + ROOM];
    let length = match transport {
        Transport::Layer2 => EthernetFrame {
            destination: packet.destination(),
            source: MacAddress(sender.mac),
            vlan: packet.vlan,
            ethertype: ETHERTYPE_PTP,
            payload: &packet.bytes,
        }
        .emit(&mut frame),
        Transport::Udp4 => {
            let group = match packet.destination() {
                MacAddress::PTP_PEER_DELAY => UdpFamily::V4_PEER_DELAY,
                _ => UdpFamily::V4_PRIMARY,
            };
            let nibble = packet.bytes.first().map_or(0, |first| first & 0x0f);
            let port = UdpDatagram::port_for(MessageType::from_nibble(nibble)?);
            let mut datagram = vec![0; packet.bytes.len() + ROOM];
            let length = UdpDatagram {
                family: UdpFamily::V4(sender.address, group),
                hop_limit: 1,
                source_port: port,
                destination_port: port,
                payload: &packet.bytes,
            }
            .emit(&mut datagram)
            .ok()?;
            let [_, b, c, d] = group;
            EthernetFrame {
                // Multicast MAC address for an IPv4 group (RFC 1112, 6.4).
                destination: MacAddress([0x01, 0, 0x5e, b & 0x7f, c, d]),
                source: MacAddress(sender.mac),
                vlan: None,
                ethertype: ETHERTYPE_IPV4,
                payload: &datagram[..length],
            }
            .emit(&mut frame)
        }
    };
    frame.truncate(length.ok()?);
    (frame.len() <= MOST).then_some(frame)
}

/// Length of the Ethernet header with a tag, and of the IPv4 and UDP headers.
const ROOM: usize = 18 + 28;
/// Length of the longest Ethernet frame with a tag, without its check sequence.
const MOST: usize = 1_518;

#[cfg(test)]
mod tests {
    use super::*;
    use timeloom_time::Instant;

    #[test]
    fn a_message_comes_out_of_the_frame_it_was_put_into() {
        let sender = Sender {
            mac: [2, 0, 0, 0, 0, 7],
            address: [10, 0, 0, 7],
        };
        for (transport, vlan) in [
            (Transport::Layer2, None),
            (Transport::Layer2, Some(VlanTag::POWER_PROFILE)),
            (Transport::Udp4, None),
        ] {
            for kind in [0, 2, 8, 0xb] {
                let mut bytes = vec![0; 54];
                (bytes[0], bytes[1], bytes[3]) = (kind, 2, 54);
                let packet = PtpPacket { bytes, vlan };
                let frame = close(transport, &packet, sender).unwrap();
                let glance = FrameView {
                    destination: frame[..6].try_into().unwrap(),
                    ethertype: u16::from_be_bytes([frame[12], frame[13]]),
                    inner: &frame[14..],
                };
                assert!(carries(transport, &glance));
                let other = match transport {
                    Transport::Layer2 => Transport::Udp4,
                    Transport::Udp4 => Transport::Layer2,
                };
                assert!(!carries(other, &glance));
                let arrived = |frame| ReceivedFrame {
                    port: 0,
                    first_bit: Instant::ZERO,
                    source: sender.mac,
                    ethertype: glance.ethertype,
                    inner: frame,
                };
                let (opened, from) = open(transport, &arrived(&frame[14..])).unwrap();
                assert_eq!(opened, packet);
                assert_eq!(from.mac, sender.mac);
                if transport == Transport::Udp4 {
                    assert_eq!(from.address, sender.address);
                    let mut broken = frame.clone();
                    broken[50] ^= 1;
                    assert!(
                        open(transport, &arrived(&broken[14..])).is_none(),
                        "checksum"
                    );
                }
            }
        }
    }
}
