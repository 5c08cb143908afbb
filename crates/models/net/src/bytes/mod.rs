//! Reading and writing of header fields in the bytes of real packets.
//!
//! All functions are pure and work on slices. The input is untrusted, so every access is checked.

mod ip;
mod neighbour;

use std::net::IpAddr;

use timeloom_time::convert::low_u16;

pub(crate) use ip::{
    IpHeader, V6_HEADER, V6_HEADER_BYTES, addresses, flow_hash, is_v6, renew_ip_checksum,
    set_length, set_tos_and_ttl,
};
pub(crate) use neighbour::{ArpMessage, NdMessage, multicast_mac};

pub(crate) const ICMP: u8 = 1;
pub(crate) const TCP: u8 = 6;
pub(crate) const UDP: u8 = 17;
pub(crate) const ICMPV6: u8 = 58;

/// Returns a length as the 16-bit fields of headers store it. No packet has more than 65,535 bytes;
/// the receivers of a longer one would drop it, because its length is not that of its header.
pub(crate) fn length16(bytes: usize) -> u16 {
    u16::try_from(bytes).unwrap_or(u16::MAX)
}

/// Returns the length of the transport header at the start of `bytes`; `None` if it is incomplete.
pub(crate) fn transport_header(protocol: u8, bytes: &[u8]) -> Option<u16> {
    let length = match protocol {
        TCP => u16::from(*bytes.get(12)? >> 4) * 4,
        UDP => 8,
        _ => return None,
    };
    let least = if protocol == TCP { 20 } else { 8 };
    (length >= least && usize::from(length) <= bytes.len()).then_some(length)
}

/// Returns the one's complement sum of RFC 1071: 16-bit words with carries added, not inverted.
pub(crate) fn sum(bytes: &[u8]) -> u16 {
    let mut words = bytes.chunks_exact(8);
    let mut sum: u64 = 0;
    for eight in &mut words {
        let word = u64::from_be_bytes(eight.try_into().expect("chunks of eight"));
        sum += (word >> 32) + (word & 0xffff_ffff);
    }
    let rest = words.remainder();
    let mut last = [0; 8];
    last[..rest.len()].copy_from_slice(rest);
    let word = u64::from_be_bytes(last);
    sum += (word >> 32) + (word & 0xffff_ffff);
    fold(sum)
}

fn fold(mut sum: u64) -> u16 {
    while sum > 0xffff {
        sum = (sum >> 16) + (sum & 0xffff);
    }
    low_u16(sum)
}

/// Returns the Internet checksum of `bytes`, as stored in a header.
pub(crate) fn checksum(bytes: &[u8]) -> u16 {
    !sum(bytes)
}

/// Returns the sum over the pseudo header (RFC 9293, section 3.1; RFC 8200, section 8.1). A sender
/// that leaves the checksum to its network card writes this sum in place of the checksum.
pub(crate) fn pseudo_sum(src_and_dst: &[u8], protocol: u8, length: u16) -> u16 {
    fold(u64::from(sum(src_and_dst)) + u64::from(protocol) + u64::from(length))
}

/// Returns the place of the checksum of TCP or UDP in an IP packet without extension headers: where
/// the summed bytes start, and its position from there.
pub(crate) fn transport_checksum(ip: &[u8]) -> Option<(u16, u16)> {
    let (start, protocol) = match is_v6(ip) {
        true => (V6_HEADER_BYTES, *ip.get(6)?),
        false => (u16::from(*ip.first()? & 15) * 4, *ip.get(9)?),
    };
    let offset = match protocol {
        TCP => 16,
        UDP => 6,
        _ => return None,
    };
    (usize::from(start + offset) + 2 <= ip.len()).then_some((start, offset))
}

/// Completes a checksum over the bytes from `start` on. The field `offset` bytes after `start`
/// contains the sum over the pseudo header. Returns false if the field is outside of the packet.
pub(crate) fn complete(bytes: &mut [u8], start: u16, offset: u16) -> bool {
    let (start, place) = (usize::from(start), usize::from(start) + usize::from(offset));
    if place + 2 > bytes.len() {
        return false;
    }
    // In UDP, zero means "no checksum" (RFC 768); in TCP, both forms of zero are equivalent.
    let sum = match checksum(&bytes[start..]) {
        0 => 0xffff,
        sum => sum,
    };
    put16(bytes, place, sum);
    true
}

/// Converts an ICMP echo request to its reply (RFC 792; RFC 4443, section 4). Returns false if the
/// packet is not a request. IPv6 requests with extension headers are left unchanged.
pub(crate) fn turn_into_echo_reply(bytes: &mut [u8]) -> bool {
    let Some(ip) = IpHeader::read(bytes) else {
        return false;
    };
    let at = usize::from(ip.header);
    let (protocol, request, reply) = match ip.dst {
        IpAddr::V4(_) => (ICMP, 8, 0),
        IpAddr::V6(_) => (ICMPV6, 128, 129),
    };
    let whole = !ip.is_v6() || at == V6_HEADER;
    if ip.protocol != protocol || !whole || bytes.len() < at + 8 || bytes[at] != request {
        return false;
    }
    let (first, second, length) = match ip.dst {
        IpAddr::V4(_) => (12, 16, 4),
        IpAddr::V6(_) => (8, 24, 16),
    };
    let (before, dst) = bytes.split_at_mut(second);
    before[first..first + length].swap_with_slice(&mut dst[..length]);
    bytes[at] = reply;
    set_icmp_checksum(bytes, at);
    set_tos_and_ttl(bytes, ip.tos, 64);
    true
}

/// Sets the checksum of the ICMP message that extends from `at` to the end of the packet.
pub(crate) fn set_icmp_checksum(packet: &mut [u8], at: usize) {
    put16(packet, at + 2, 0);
    if is_v6(packet) {
        // Only the ICMPv6 checksum includes the addresses (RFC 4443, section 2.3).
        let length = length16(packet.len() - at);
        let pseudo = pseudo_sum(addresses(packet), ICMPV6, length);
        put16(packet, at + 2, pseudo);
    }
    let sum = checksum(&packet[at..]);
    put16(packet, at + 2, sum);
}

pub(crate) fn be16(bytes: &[u8], at: usize) -> u16 {
    u16::from_be_bytes([bytes[at], bytes[at + 1]])
}

pub(crate) fn be32(bytes: &[u8], at: usize) -> u32 {
    u32::from_be_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]])
}

pub(crate) fn put16(bytes: &mut [u8], at: usize, value: u16) {
    bytes[at..at + 2].copy_from_slice(&value.to_be_bytes());
}

pub(crate) fn mac(bytes: &[u8], at: usize) -> [u8; 6] {
    bytes[at..at + 6].try_into().expect("six bytes")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Checks the example of RFC 1071, section 3.
    #[test]
    fn sums_as_the_rfc_does() {
        assert_eq!(sum(&[0, 1, 0xf2, 3, 0xf4, 0xf5, 0xf6, 0xf7]), 0xddf2);
        assert_eq!(sum(&[0, 1, 0xf2, 3, 0xf4, 0xf5, 0xf6, 0xf7, 9]), 0xe6f2);
    }

    #[test]
    fn a_completed_checksum_makes_the_whole_sum_all_ones() {
        let addresses = [10, 0, 0, 1, 10, 0, 0, 2];
        let mut datagram = vec![0x13, 0x88, 0x13, 0x89, 0, 11, 0, 0, b'a', b'b', b'c'];
        let partial = pseudo_sum(&addresses, UDP, 11);
        put16(&mut datagram, 6, partial);
        assert!(complete(&mut datagram, 0, 6));
        let whole = u32::from(sum(&datagram)) + u32::from(partial);
        assert_eq!((whole >> 16) + (whole & 0xffff), 0xffff);
        assert!(!complete(&mut datagram, 9, 6), "there is no such place");
    }
}
