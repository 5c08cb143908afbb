//! Messages of neighbour resolution: ARP (RFC 826), and the neighbour solicitations and
//! advertisements of IPv6 (RFC 4861, sections 4.3 and 4.4).

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use super::ip::v6;
use super::{
    ICMPV6, IpHeader, V6_HEADER, V6_HEADER_BYTES, be16, be32, mac, put16, set_icmp_checksum, sum,
};

/// Content of a message of either protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct NeighbourMessage {
    /// True if the sender requests an answer.
    pub(crate) is_request: bool,
    /// Address of the sender, to which `mac` belongs.
    pub(crate) sender: IpAddr,
    /// MAC address of `sender`; `None` if the message does not contain it.
    pub(crate) mac: Option<[u8; 6]>,
    /// In a request: the address to resolve. In an answer: the address of the receiving host.
    pub(crate) target: IpAddr,
}

/// ARP message for IPv4 over Ethernet (RFC 826).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ArpMessage {
    pub(crate) is_request: bool,
    pub(crate) sender_mac: [u8; 6],
    pub(crate) sender: Ipv4Addr,
    pub(crate) target_mac: [u8; 6],
    pub(crate) target: Ipv4Addr,
}

impl ArpMessage {
    pub(crate) fn read(bytes: &[u8]) -> Option<Self> {
        let bytes: &[u8; 28] = bytes.first_chunk()?;
        let operation = be16(bytes, 6);
        let known = bytes[..6] == [0, 1, 8, 0, 6, 4] && matches!(operation, 1 | 2);
        known.then(|| Self {
            is_request: operation == 1,
            sender_mac: mac(bytes, 8),
            sender: be32(bytes, 14).into(),
            target_mac: mac(bytes, 18),
            target: be32(bytes, 24).into(),
        })
    }

    pub(crate) fn write(&self, out: &mut Vec<u8>) {
        out.extend([0, 1, 8, 0, 6, 4, 0, if self.is_request { 1 } else { 2 }]);
        out.extend(self.sender_mac);
        out.extend(self.sender.octets());
        out.extend(self.target_mac);
        out.extend(self.target.octets());
    }

    pub(crate) fn said(&self) -> NeighbourMessage {
        NeighbourMessage {
            is_request: self.is_request,
            sender: self.sender.into(),
            mac: Some(self.sender_mac),
            target: self.target.into(),
        }
    }
}

/// Neighbour solicitation or advertisement, including its IPv6 header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct NdMessage {
    /// True for a solicitation.
    pub(crate) is_request: bool,
    /// Flags of an advertisement: router, solicited and override, in the three high bits.
    pub(crate) flags: u8,
    pub(crate) src: Ipv6Addr,
    pub(crate) dst: Ipv6Addr,
    /// In a solicitation: the address to resolve. In an advertisement: the address of the answering
    /// host.
    pub(crate) target: Ipv6Addr,
    /// In a solicitation: MAC address of the sender. In an advertisement: MAC address of the
    /// target.
    pub(crate) mac: Option<[u8; 6]>,
}

impl NdMessage {
    pub(crate) const ROUTER: u8 = 0x80;
    pub(crate) const SOLICITED: u8 = 0x40;
    pub(crate) const OVERRIDE: u8 = 0x20;

    /// Length in bytes of a message with a MAC address, from the IP header on.
    pub(crate) const BYTES: u16 = V6_HEADER_BYTES + 32;

    /// Parses a message. Returns `None` for other packets, and for those that RFC 4861, section
    /// 7.1, requires to be dropped. A hop limit other than 255 means that the message has passed a
    /// router.
    pub(crate) fn read(packet: &[u8]) -> Option<Self> {
        let ip = IpHeader::read(packet)?;
        let (IpAddr::V6(src), IpAddr::V6(dst)) = (ip.src, ip.dst) else {
            return None;
        };
        let is_near = ip.ttl == 255 && usize::from(ip.header) == V6_HEADER;
        if !is_near || ip.protocol != ICMPV6 {
            return None;
        }
        let message = &packet[V6_HEADER..usize::from(ip.length)];
        let fixed: &[u8; 24] = message.first_chunk()?;
        let (is_request, wanted) = match fixed[..2] {
            [SOLICITATION, 0] => (true, OF_SOURCE),
            [ADVERTISEMENT, 0] => (false, OF_TARGET),
            _ => return None,
        };
        let target = v6(fixed, 8);
        let pseudo = super::pseudo_sum(
            &packet[8..V6_HEADER],
            ICMPV6,
            super::length16(message.len()),
        );
        let whole = u32::from(sum(message)) + u32::from(pseudo);
        if (whole >> 16) + (whole & 0xffff) != 0xffff || target.is_multicast() {
            return None;
        }
        let mut told = None;
        let mut options = &message[fixed.len()..];
        while let [kind, words, ..] = *options {
            let (option, rest) = options.split_at_checked(usize::from(words) * 8)?;
            if option.len() < 8 {
                return None; // of no length
            }
            if kind == wanted && words == 1 {
                told = Some(mac(option, 2));
            }
            options = rest;
        }
        Some(Self {
            is_request,
            flags: if is_request { 0 } else { fixed[4] & 0xe0 },
            src,
            dst,
            target,
            mac: told,
        })
    }

    pub(crate) fn write(&self, out: &mut Vec<u8>) {
        let start = out.len();
        out.extend([0x60, 0, 0, 0, 0, 0, ICMPV6, 255]);
        out.extend(self.src.octets());
        out.extend(self.dst.octets());
        let (kind, option) = match self.is_request {
            true => (SOLICITATION, OF_SOURCE),
            false => (ADVERTISEMENT, OF_TARGET),
        };
        out.extend([kind, 0, 0, 0, self.flags, 0, 0, 0]);
        out.extend(self.target.octets());
        if let Some(mac) = self.mac {
            out.extend([option, 1]);
            out.extend(mac);
        }
        let packet = &mut out[start..];
        put16(packet, 4, super::length16(packet.len() - V6_HEADER));
        set_icmp_checksum(packet, V6_HEADER);
    }

    /// Returns a solicitation for `target`, addressed to all hosts on the link that could have that
    /// address.
    pub(crate) fn solicitation(src: Ipv6Addr, mac: [u8; 6], target: Ipv6Addr) -> Self {
        Self {
            is_request: true,
            flags: 0,
            src,
            dst: solicited_node(target),
            target,
            mac: Some(mac),
        }
    }

    pub(crate) fn said(&self) -> NeighbourMessage {
        let (sender, target) = match self.is_request {
            true => (self.src, self.target),
            false => (self.target, self.dst),
        };
        NeighbourMessage {
            is_request: self.is_request,
            sender: sender.into(),
            mac: self.mac,
            target: target.into(),
        }
    }
}

const SOLICITATION: u8 = 135;
const ADVERTISEMENT: u8 = 136;
const OF_SOURCE: u8 = 1;
const OF_TARGET: u8 = 2;

/// Returns the solicited-node multicast address of an address (RFC 4291, section 2.7.1).
fn solicited_node(address: Ipv6Addr) -> Ipv6Addr {
    const PREFIX: u128 = 0xff02_0000_0000_0000_0000_0001_ff00_0000;
    Ipv6Addr::from_bits(PREFIX | address.to_bits() & 0xff_ffff)
}

/// Returns the MAC address of an IPv6 multicast group (RFC 2464, section 7).
pub(crate) fn multicast_mac(group: Ipv6Addr) -> [u8; 6] {
    let [.., a, b, c, d] = group.octets();
    [0x33, 0x33, a, b, c, d]
}

#[cfg(test)]
mod tests {
    use timeloom_engine::Random;

    use super::*;

    #[test]
    fn arp_messages_survive_writing_and_reading() {
        let message = ArpMessage {
            is_request: false,
            sender_mac: [2, 0, 0, 0, 0, 1],
            sender: Ipv4Addr::new(10, 0, 0, 1),
            target_mac: [2, 0, 0, 0, 0, 2],
            target: Ipv4Addr::new(10, 0, 0, 2),
        };
        let mut bytes = Vec::new();
        message.write(&mut bytes);
        assert_eq!(ArpMessage::read(&bytes), Some(message));
        for short in 0..bytes.len() {
            assert_eq!(ArpMessage::read(&bytes[..short]), None);
        }
    }

    fn messages() -> Vec<NdMessage> {
        let (a, b) = ("fd00::1".parse().unwrap(), "fd00::2".parse().unwrap());
        let asks = NdMessage::solicitation(a, [2, 0, 0, 0, 0, 1], b);
        let answers = NdMessage {
            is_request: false,
            flags: NdMessage::SOLICITED | NdMessage::OVERRIDE,
            src: b,
            dst: a,
            target: b,
            mac: Some([2, 0, 0, 0, 0, 2]),
        };
        let silent = NdMessage { mac: None, ..asks };
        vec![asks, answers, silent]
    }

    #[test]
    fn neighbour_messages_survive_writing_and_reading() {
        for message in messages() {
            let mut bytes = Vec::new();
            message.write(&mut bytes);
            assert_eq!(NdMessage::read(&bytes), Some(message));
            for short in 0..bytes.len() {
                assert_eq!(NdMessage::read(&bytes[..short]), None);
            }
            // A single changed byte makes the checksum wrong, or the packet is no longer such a
            // message.
            for at in 0..bytes.len() {
                let mut wrong = bytes.clone();
                wrong[at] ^= 1;
                // The checksum does not cover traffic class and flow label.
                assert!(at < 4 || NdMessage::read(&wrong).is_none(), "byte {at}");
            }
        }
    }

    #[test]
    fn any_neighbour_message_survives_and_no_bytes_do_harm() {
        for seed in 0..2_000 {
            let mut random = Random::new(seed, 0);
            let mut address = || {
                let bits = u128::from(random.bits()) << 64 | u128::from(random.bits());
                Ipv6Addr::from_bits(bits >> 8) // of no group
            };
            let (src, dst, target) = (address(), address(), address());
            let word = random.bits().to_be_bytes();
            let is_request = word[6] & 1 == 0;
            let message = NdMessage {
                is_request,
                flags: if is_request { 0 } else { word[7] & 0xe0 },
                src,
                dst,
                target,
                mac: (word[6] & 2 == 0).then(|| mac(&word, 0)),
            };
            let mut bytes = Vec::new();
            message.write(&mut bytes);
            assert_eq!(NdMessage::read(&bytes), Some(message), "seed {seed}");
            for _ in 0..8 {
                let at = random.below(bytes.len() as u64) as usize;
                bytes[at] = random.bits() as u8;
                let cut = random.below(bytes.len() as u64 + 1) as usize;
                let _ = (NdMessage::read(&bytes), NdMessage::read(&bytes[..cut]));
                let _ = IpHeader::read(&bytes[..cut]);
            }
        }
    }

    /// Checks the examples of RFC 4291, section 2.7.1, and RFC 2464, section 7.
    #[test]
    fn solicitations_go_to_the_group_of_the_target() {
        let own: Ipv6Addr = "4037::1:800:200e:8c6c".parse().unwrap();
        let group = solicited_node(own);
        assert_eq!(group.to_string(), "ff02::1:ff0e:8c6c");
        assert_eq!(multicast_mac(group), [0x33, 0x33, 0xff, 0x0e, 0x8c, 0x6c]);
    }
}
