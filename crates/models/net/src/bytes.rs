//! Bytes of real packets: what the model reads of them, and what it writes.
//!
//! Pure functions over slices. Everything that comes from outside may be
//! anything at all, so that every access is checked.

/// What the model needs of an IPv4 header (RFC 791, section 3.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct IpHeader {
    /// Bytes of the header itself.
    pub(crate) header: u16,
    /// Bytes of the packet.
    pub(crate) length: u16,
    pub(crate) tos: u8,
    pub(crate) ttl: u8,
    pub(crate) protocol: u8,
    pub(crate) src: u32,
    pub(crate) dst: u32,
    /// Whether it is a part of a larger packet.
    pub(crate) fragment: bool,
    /// Whether that is not the first part.
    pub(crate) later_fragment: bool,
    /// Whether it must not be cut.
    pub(crate) dont_fragment: bool,
}

impl IpHeader {
    pub(crate) fn read(bytes: &[u8]) -> Option<Self> {
        let header: &[u8; 20] = bytes.first_chunk()?;
        let words = u16::from(header[0] & 15);
        let length = be16(header, 2);
        let fits = usize::from(length) <= bytes.len() && length >= words * 4;
        (header[0] >> 4 == 4 && words >= 5 && fits).then(|| Self {
            header: words * 4,
            length,
            tos: header[1],
            ttl: header[8],
            protocol: header[9],
            src: be32(header, 12),
            dst: be32(header, 16),
            fragment: be16(header, 6) & 0x3fff != 0,
            later_fragment: be16(header, 6) & 0x1fff != 0,
            dont_fragment: be16(header, 6) & 0x4000 != 0,
        })
    }
}

pub(crate) const ICMP: u8 = 1;
pub(crate) const TCP: u8 = 6;
pub(crate) const UDP: u8 = 17;

/// Bytes of the transport header that begins `bytes`, if it is all there.
pub(crate) fn transport_header(protocol: u8, bytes: &[u8]) -> Option<u16> {
    let length = match protocol {
        TCP => u16::from(*bytes.get(12)? >> 4) * 4,
        UDP => 8,
        _ => return None,
    };
    let least = if protocol == TCP { 20 } else { 8 };
    (length >= least && usize::from(length) <= bytes.len()).then_some(length)
}

/// A number that is alike for all packets of a flow: equal-cost paths are
/// chosen by it (RFC 2992). `bytes` begin with the IP header.
pub(crate) fn flow_hash(ip: &IpHeader, bytes: &[u8]) -> u32 {
    let at = usize::from(ip.header);
    let ports = match bytes.get(at..at + 4) {
        Some(ports) if !ip.fragment && matches!(ip.protocol, TCP | UDP) => be32(ports, 0),
        _ => 0,
    };
    let mut mixed = u64::from(ip.src) << 32 | u64::from(ip.dst);
    for word in [ports, u32::from(ip.protocol)] {
        mixed = (mixed ^ u64::from(word)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        mixed ^= mixed >> 29;
    }
    mixed as u32 ^ (mixed >> 32) as u32
}

/// RFC 1071: the sum of 16-bit words with the carries added in, not inverted.
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
    while sum > 0xffff {
        sum = (sum >> 16) + (sum & 0xffff);
    }
    sum as u16
}

/// The internet checksum, as it stands in a header.
pub(crate) fn checksum(bytes: &[u8]) -> u16 {
    !sum(bytes)
}

/// The sum over the pseudo header (RFC 9293, section 3.1) that a sender leaves
/// in the checksum's place when somebody else is to complete it.
pub(crate) fn pseudo_sum(src_and_dst: &[u8], protocol: u8, length: u16) -> u16 {
    let mut pseudo = [0; 12];
    pseudo[..8].copy_from_slice(src_and_dst);
    pseudo[9] = protocol;
    pseudo[10..].copy_from_slice(&length.to_be_bytes());
    sum(&pseudo)
}

/// Completes a checksum: the place `offset` after `start` holds the sum over
/// the pseudo header. Gives back whether the place exists.
pub(crate) fn complete(bytes: &mut [u8], start: u16, offset: u16) -> bool {
    let (start, place) = (usize::from(start), usize::from(start) + usize::from(offset));
    if place + 2 > bytes.len() {
        return false;
    }
    // In UDP zero means that there is none (RFC 768); for TCP both forms of
    // zero are alike.
    let sum = match checksum(&bytes[start..]) {
        0 => 0xffff,
        sum => sum,
    };
    put16(bytes, place, sum);
    true
}

/// Writes what changes on the way, the type of service (by marks of
/// congestion) and the time to live, and the header's checksum anew.
pub(crate) fn set_tos_and_ttl(header: &mut [u8], tos: u8, ttl: u8) {
    header[1] = tos;
    header[8] = ttl;
    renew_ip_checksum(header);
}

/// `header` is the IP header or begins with it.
pub(crate) fn renew_ip_checksum(header: &mut [u8]) {
    let length = usize::from(header[0] & 15) * 4;
    put16(header, 10, 0);
    let sum = checksum(&header[..length]);
    put16(header, 10, sum);
}

/// Makes an ICMP echo request the reply to itself (RFC 792); says whether it
/// was one.
pub(crate) fn turn_into_echo_reply(bytes: &mut [u8]) -> bool {
    const ECHO_REQUEST: u8 = 8;
    let header = usize::from(bytes[0] & 15) * 4;
    if bytes[9] != ICMP || bytes.len() < header + 8 || bytes[header] != ECHO_REQUEST {
        return false;
    }
    let (before, dst) = bytes.split_at_mut(16);
    before[12..16].swap_with_slice(&mut dst[..4]);
    bytes[header] = 0;
    put16(bytes, header + 2, 0);
    let sum = checksum(&bytes[header..]);
    put16(bytes, header + 2, sum);
    set_tos_and_ttl(bytes, bytes[1], 64);
    true
}

/// An ARP message about Ethernet and IPv4 (RFC 826).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ArpMessage {
    pub(crate) is_request: bool,
    pub(crate) sender_mac: [u8; 6],
    pub(crate) sender: u32,
    pub(crate) target_mac: [u8; 6],
    pub(crate) target: u32,
}

impl ArpMessage {
    pub(crate) fn read(bytes: &[u8]) -> Option<Self> {
        let bytes: &[u8; 28] = bytes.first_chunk()?;
        let operation = be16(bytes, 6);
        let known = bytes[..6] == [0, 1, 8, 0, 6, 4] && matches!(operation, 1 | 2);
        known.then(|| Self {
            is_request: operation == 1,
            sender_mac: mac(bytes, 8),
            sender: be32(bytes, 14),
            target_mac: mac(bytes, 18),
            target: be32(bytes, 24),
        })
    }

    pub(crate) fn write(&self, out: &mut Vec<u8>) {
        out.extend([0, 1, 8, 0, 6, 4, 0, if self.is_request { 1 } else { 2 }]);
        out.extend(self.sender_mac);
        out.extend(self.sender.to_be_bytes());
        out.extend(self.target_mac);
        out.extend(self.target.to_be_bytes());
    }
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

    /// The example of RFC 1071, section 3.
    #[test]
    fn sums_as_the_rfc_does() {
        assert_eq!(sum(&[0, 1, 0xf2, 3, 0xf4, 0xf5, 0xf6, 0xf7]), 0xddf2);
        assert_eq!(sum(&[0, 1, 0xf2, 3, 0xf4, 0xf5, 0xf6, 0xf7, 9]), 0xe6f2);
    }

    #[test]
    fn arp_messages_survive_writing_and_reading() {
        let message = ArpMessage {
            is_request: false,
            sender_mac: [2, 0, 0, 0, 0, 1],
            sender: 0x0a00_0001,
            target_mac: [2, 0, 0, 0, 0, 2],
            target: 0x0a00_0002,
        };
        let mut bytes = Vec::new();
        message.write(&mut bytes);
        assert_eq!(ArpMessage::read(&bytes), Some(message));
        for short in 0..bytes.len() {
            assert_eq!(ArpMessage::read(&bytes[..short]), None);
        }
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
