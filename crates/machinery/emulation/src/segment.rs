//! Conversion of frames to wire format: trains are segmented and checksums are completed. It is
//! used for captures, and for ports whose kernel supports neither trains nor open checksums.

use timeloom_net::{Frame, OffloadedWork, TrainProtocol};

/// Calls `each` with every segment of a train, or with the single frame, in wire format with
/// complete checksums. `scratch` is a buffer, whose content is overwritten.
pub fn segments(frame: &Frame<'_>, scratch: &mut Vec<u8>, mut each: impl FnMut(&[u8])) {
    let Some(train) = frame.offload.train else {
        scratch.clear();
        scratch.extend_from_slice(frame.head);
        scratch.extend_from_slice(frame.rest);
        complete(scratch, frame.offload);
        return each(scratch);
    };
    let size = usize::from(train.payload_bytes).max(1);
    let count = frame.rest.len().div_ceil(size);
    for (index, part) in frame.rest.chunks(size).enumerate() {
        scratch.clear();
        scratch.extend_from_slice(frame.head);
        scratch.extend_from_slice(part);
        head_of_part(scratch, train.protocol, index, size, index + 1 == count);
        complete(scratch, frame.offload);
        each(scratch);
    }
}

/// Changes the headers of a train to those of the segment with number `index`.
fn head_of_part(frame: &mut [u8], protocol: TrainProtocol, index: usize, size: usize, last: bool) {
    let ip = &mut frame[ETHERNET..];
    let header = header_of(ip);
    set_length(ip, ip.len() as u16);
    if !is_v6_header(ip) {
        let identification = u16::from_be_bytes([ip[4], ip[5]]).wrapping_add(index as u16);
        put(ip, 4, identification);
        put_sum(&mut ip[..header]);
    }
    let (ip, transport) = ip.split_at_mut(header);
    let inner = transport.len() as u16;
    let pseudo = add(0, addresses(ip)) + u64::from(inner);
    match protocol {
        TrainProtocol::Tcp => {
            let sequence =
                u32::from_be_bytes([transport[4], transport[5], transport[6], transport[7]]);
            let sequence = sequence.wrapping_add((index * size) as u32);
            transport[4..8].copy_from_slice(&sequence.to_be_bytes());
            if index > 0 {
                transport[13] &= !0x80;
            }
            if !last {
                transport[13] &= !0x09;
            }
            put(transport, 16, fold(pseudo + 6));
        }
        TrainProtocol::Udp => {
            put(transport, 4, inner);
            put(transport, 6, fold(pseudo + 17));
        }
    }
}

/// Completes an open checksum, which the sender left to the network card. Until then its field
/// contains the sum over the pseudo header.
fn complete(frame: &mut [u8], offload: OffloadedWork) {
    let Some(checksum) = offload.checksum else {
        return;
    };
    let start = usize::from(checksum.start);
    let place = start + usize::from(checksum.offset);
    if place + 2 > frame.len() {
        return;
    }
    let sum = !fold(add(0, &frame[start..]));
    put(frame, place, if sum == 0 { 0xffff } else { sum });
}

/// Returns true if `head` begins with the headers of an IPv6 frame.
pub(crate) fn is_v6(head: &[u8]) -> bool {
    head.get(12..14) == Some(&[0x86, 0xdd])
}

fn is_v6_header(ip: &[u8]) -> bool {
    ip[0] >> 4 == 6
}

/// Returns the length in bytes of the IP header at the start of `ip`. IPv6 trains have no extension
/// headers, so the length is constant for IPv6.
pub(crate) fn header_of(ip: &[u8]) -> usize {
    if is_v6_header(ip) {
        V6_HEADER
    } else {
        usize::from(ip[0] & 15) * 4
    }
}

/// Returns the source and destination address of an IP header, as adjacent bytes.
pub(crate) fn addresses(ip: &[u8]) -> &[u8] {
    if is_v6_header(ip) {
        &ip[8..V6_HEADER]
    } else {
        &ip[12..20]
    }
}

/// Returns the protocol field of an IP header.
pub(crate) fn protocol_of(ip: &[u8]) -> u8 {
    ip[if is_v6_header(ip) { 6 } else { 9 }]
}

/// Sets the length field in an IP header so that the packet has `total` bytes.
pub(crate) fn set_length(ip: &mut [u8], total: u16) {
    if is_v6_header(ip) {
        put(ip, 4, total - V6_HEADER as u16);
    } else {
        put(ip, 2, total);
    }
}

/// Recomputes the checksum of an IPv4 header.
pub(crate) fn put_sum(ip: &mut [u8]) {
    put(ip, 10, 0);
    let sum = fold(add(0, ip));
    put(ip, 10, !sum);
}

pub(crate) fn add(sum: u64, bytes: &[u8]) -> u64 {
    let words = bytes.chunks(2);
    sum + words
        .map(|word| u64::from(word[0]) << 8 | u64::from(*word.get(1).unwrap_or(&0)))
        .sum::<u64>()
}

pub(crate) fn fold(mut sum: u64) -> u16 {
    while sum > 0xffff {
        sum = (sum >> 16) + (sum & 0xffff);
    }
    sum as u16
}

pub(crate) fn put(bytes: &mut [u8], at: usize, value: u16) {
    bytes[at..at + 2].copy_from_slice(&value.to_be_bytes());
}

pub(crate) const ETHERNET: usize = 14;
/// Length of an IPv6 header in bytes.
pub(crate) const V6_HEADER: usize = 40;
