//! IP headers: RFC 791, section 3.1, and RFC 8200, sections 3 and 4.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use timeloom_time::convert::{high_u64, low_u32, low_u64};

use super::{ICMPV6, TCP, UDP, be16, be32, checksum, length16, put16};

/// Fields of an IPv4 or IPv6 header that the model needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct IpHeader {
    /// Length of the header in bytes, including options or extension headers.
    pub(crate) header: u16,
    /// Length of the packet in bytes, including the header.
    pub(crate) length: u16,
    /// Type of service (IPv4), or traffic class (IPv6).
    pub(crate) tos: u8,
    /// Time to live (IPv4), or hop limit (IPv6).
    pub(crate) ttl: u8,
    /// Number of the protocol that follows the header.
    pub(crate) protocol: u8,
    pub(crate) src: IpAddr,
    pub(crate) dst: IpAddr,
    /// True if the packet is a fragment.
    pub(crate) fragment: bool,
    /// True if the packet is a fragment other than the first.
    pub(crate) later_fragment: bool,
    /// True if routers must not fragment the packet.
    pub(crate) dont_fragment: bool,
}

impl IpHeader {
    pub(crate) fn read(bytes: &[u8]) -> Option<Self> {
        match bytes.first()? >> 4 {
            4 => Self::read_v4(bytes),
            6 => Self::read_v6(bytes),
            _ => None,
        }
    }

    fn read_v4(bytes: &[u8]) -> Option<Self> {
        let header: &[u8; 20] = bytes.first_chunk()?;
        let words = u16::from(header[0] & 15);
        let length = be16(header, 2);
        let fits = usize::from(length) <= bytes.len() && length >= words * 4;
        (words >= 5 && fits).then(|| Self {
            header: words * 4,
            length,
            tos: header[1],
            ttl: header[8],
            protocol: header[9],
            src: Ipv4Addr::from_bits(be32(header, 12)).into(),
            dst: Ipv4Addr::from_bits(be32(header, 16)).into(),
            fragment: be16(header, 6) & 0x3fff != 0,
            later_fragment: be16(header, 6) & 0x1fff != 0,
            dont_fragment: be16(header, 6) & 0x4000 != 0,
        })
    }

    fn read_v6(bytes: &[u8]) -> Option<Self> {
        let fixed: &[u8; V6_HEADER] = bytes.first_chunk()?;
        let length = be16(fixed, 4).checked_add(V6_HEADER_BYTES)?;
        let packet = bytes.get(..usize::from(length))?;
        let (mut protocol, mut header) = (fixed[6], V6_HEADER);
        let (mut fragment, mut later_fragment) = (false, false);
        while !later_fragment {
            let extension = match protocol {
                HOP_BY_HOP | ROUTING | FRAGMENT | DESTINATION => packet.get(header..header + 8)?,
                _ => break,
            };
            if protocol == FRAGMENT {
                // An unfragmented packet can also have a fragment header (atomic fragment, RFC
                // 6946).
                fragment = be16(extension, 2) & 0xfff9 != 0;
                later_fragment = be16(extension, 2) & 0xfff8 != 0;
                header += 8;
            } else {
                header += (usize::from(extension[1]) + 1) * 8;
            }
            protocol = extension[0];
        }
        (header <= packet.len()).then(|| Self {
            header: length16(header),
            length,
            tos: fixed[0] << 4 | fixed[1] >> 4,
            ttl: fixed[7],
            protocol,
            src: v6(fixed, 8).into(),
            dst: v6(fixed, 24).into(),
            fragment,
            later_fragment,
            dont_fragment: true,
        })
    }

    pub(crate) fn is_v6(&self) -> bool {
        self.dst.is_ipv6()
    }

    /// Returns true if `packet`, which begins with this header, is a message of neighbour
    /// discovery. Routers must not forward such messages (RFC 4861, section 4).
    pub(crate) fn is_neighbour_discovery(&self, packet: &[u8]) -> bool {
        let kind = packet.get(usize::from(self.header));
        self.protocol == ICMPV6
            && !self.later_fragment
            && self.is_v6()
            && matches!(kind, Some(133..=137))
    }
}

/// Length of an IPv6 header without extension headers, in bytes, as header fields store it.
pub(crate) const V6_HEADER_BYTES: u16 = 40;
/// The same, as an index.
pub(crate) const V6_HEADER: usize = V6_HEADER_BYTES as usize;

const HOP_BY_HOP: u8 = 0;
const ROUTING: u8 = 43;
const FRAGMENT: u8 = 44;
const DESTINATION: u8 = 60;

pub(super) fn v6(bytes: &[u8], at: usize) -> Ipv6Addr {
    let octets: [u8; 16] = bytes[at..at + 16].try_into().expect("sixteen bytes");
    octets.into()
}

/// Returns true if the IP header at the start of `bytes` has version 6.
#[inline]
pub(crate) fn is_v6(bytes: &[u8]) -> bool {
    bytes.first().is_some_and(|first| first >> 4 == 6)
}

/// Returns the source and destination address of an IP header, as one slice.
pub(crate) fn addresses(header: &[u8]) -> &[u8] {
    if is_v6(header) {
        &header[8..40]
    } else {
        &header[12..20]
    }
}

/// Sets the length field of the packet that begins with `header`.
pub(crate) fn set_length(header: &mut [u8], length: u16) {
    if is_v6(header) {
        put16(header, 4, length - V6_HEADER_BYTES);
    } else {
        put16(header, 2, length);
    }
}

/// Sets the fields that routers change, type of service (congestion marks) and time to live, and
/// updates the checksum of an IPv4 header.
pub(crate) fn set_tos_and_ttl(header: &mut [u8], tos: u8, ttl: u8) {
    if is_v6(header) {
        header[0] = 0x60 | tos >> 4;
        header[1] = tos << 4 | header[1] & 15;
        header[7] = ttl;
        return;
    }
    header[1] = tos;
    header[8] = ttl;
    renew_ip_checksum(header);
}

/// Recomputes the checksum of the IPv4 header at the start of `header`.
pub(crate) fn renew_ip_checksum(header: &mut [u8]) {
    let length = usize::from(header[0] & 15) * 4;
    put16(header, 10, 0);
    let sum = checksum(&header[..length]);
    put16(header, 10, sum);
}

/// Returns a number that is equal for all packets of a flow, by which routers select one of several
/// equal-cost paths (RFC 2992). `bytes` begins with the IP header.
pub(crate) fn flow_hash(ip: &IpHeader, bytes: &[u8]) -> u32 {
    let at = usize::from(ip.header);
    let ports = match bytes.get(at..at + 4) {
        Some(ports) if !ip.fragment && matches!(ip.protocol, TCP | UDP) => be32(ports, 0),
        _ => 0,
    };
    let mix = |mixed: u64, word: u64| {
        let mixed = (mixed ^ word).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        mixed ^ mixed >> 29
    };
    let of_v6 = |address: Ipv6Addr| {
        let bits = address.to_bits();
        mix(high_u64(bits), low_u64(bits))
    };
    let addresses = match (ip.src, ip.dst) {
        (IpAddr::V4(src), IpAddr::V4(dst)) => {
            u64::from(src.to_bits()) << 32 | u64::from(dst.to_bits())
        }
        (IpAddr::V6(src), IpAddr::V6(dst)) => of_v6(src).rotate_left(32) ^ of_v6(dst),
        _ => 0, // a header has two of one kind
    };
    let mixed = mix(mix(addresses, ports.into()), ip.protocol.into());
    low_u32(mixed) ^ low_u32(mixed >> 32)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn packet(protocol: u8, after: &[u8]) -> Vec<u8> {
        let mut bytes = vec![0x6a, 0xb1, 2, 3, 0, after.len() as u8, protocol, 7];
        bytes.extend(Ipv6Addr::new(0xfd00, 0, 0, 0, 0, 0, 0, 1).octets());
        bytes.extend(Ipv6Addr::new(0xfd00, 0, 0, 0, 0, 0, 0, 2).octets());
        bytes.extend(after);
        bytes
    }

    #[test]
    fn extension_headers_belong_to_the_header() {
        let read = |bytes: &[u8]| IpHeader::read(bytes).map(|ip| (ip.header, ip.protocol));
        assert_eq!(read(&packet(UDP, &[0; 8])), Some((40, UDP)));
        // 16 bytes of hop-by-hop options are followed by 8 bytes of destination options.
        let mut after = [0; 32];
        (after[0], after[1], after[16]) = (DESTINATION, 1, UDP);
        assert_eq!(read(&packet(HOP_BY_HOP, &after)), Some((64, UDP)));
        after[17] = 9;
        assert_eq!(read(&packet(HOP_BY_HOP, &after)), None, "longer than it is");
    }

    #[test]
    fn fragments_are_told_from_whole_packets() {
        for (word, fragment, later) in [(0, false, false), (1, true, false), (8, true, true)] {
            let bytes = packet(FRAGMENT, &[UDP, 0, 0, word, 0, 0, 0, 1, 9, 9]);
            let ip = IpHeader::read(&bytes).unwrap();
            assert_eq!((ip.fragment, ip.later_fragment), (fragment, later));
            assert_eq!((ip.header, ip.protocol, ip.tos, ip.ttl), (48, UDP, 0xab, 7));
        }
    }

    #[test]
    fn changing_tos_and_ttl_changes_nothing_else() {
        let bytes = packet(UDP, &[0; 8]);
        let mut changed = bytes.clone();
        set_tos_and_ttl(&mut changed, 0x53, 6);
        let (before, after) = (IpHeader::read(&bytes), IpHeader::read(&changed));
        let wanted = before.map(|ip| IpHeader {
            tos: 0x53,
            ttl: 6,
            ..ip
        });
        assert_eq!(after, wanted);
        assert_eq!(changed[1] & 15, 1, "the flow label");
    }
}
