//! The header `struct virtio_net_hdr` before a frame, which describes the frame's pending offloads
//! (linux/virtio_net.h; Virtio 1.2, section 5.1.6).

use std::io::{self, IoSliceMut};
use std::os::fd::AsFd;

use rustix::io::{Errno, readv};
use timeloom_net::{Checksum, LARGE, OffloadedWork, Train, TrainProtocol};

use crate::ReceiveResult;
use crate::segment::is_v6;

/// Length in bytes of the header without the count of merged buffers.
pub(crate) const LENGTH: usize = 10;

const NEEDS_CHECKSUM: u8 = 1;
const NONE: u8 = 0;
const TCP4: u8 = 1;
const TCP6: u8 = 4;
const UDP_L4: u8 = 5;

/// Parses the header; returns `None` if it describes a kind of segmentation that was not requested.
pub(crate) fn read(header: &[u8; LENGTH]) -> Option<OffloadedWork> {
    let word = |at: usize| u16::from_ne_bytes([header[at], header[at + 1]]);
    let checksum = (header[0] & NEEDS_CHECKSUM != 0).then(|| Checksum {
        start: word(6),
        offset: word(8),
    });
    let protocol = match header[1] {
        NONE => {
            return Some(OffloadedWork {
                train: None,
                checksum,
            });
        }
        TCP4 | TCP6 => TrainProtocol::Tcp,
        UDP_L4 => TrainProtocol::Udp,
        _ => return None,
    };
    let train = Some(Train {
        protocol,
        payload_bytes: word(4),
    });
    Some(OffloadedWork { train, checksum })
}

/// Reads one frame from a device that writes this header, of `length` bytes, before each frame (0:
/// no header). If there is nothing to read, the result is [`ReceiveResult::Nothing`].
pub(crate) fn receive(
    device: impl AsFd,
    length: usize,
    buffer: &mut Vec<u8>,
) -> io::Result<ReceiveResult> {
    if buffer.len() < LARGE {
        buffer.resize(LARGE, 0);
    }
    let mut header = [0u8; LENGTH];
    let mut parts = [
        IoSliceMut::new(&mut header[..length.min(LENGTH)]),
        IoSliceMut::new(buffer),
    ];
    let read_bytes = match readv(device, &mut parts) {
        Ok(bytes) => bytes,
        Err(Errno::AGAIN | Errno::INTR) => return Ok(ReceiveResult::Nothing),
        Err(errno) => return Err(errno.into()),
    };
    match (read_bytes.checked_sub(length), read(&header)) {
        (Some(used), Some(offload)) => Ok(ReceiveResult::Frame(used, offload)),
        _ => Ok(ReceiveResult::Malformed),
    }
}

/// Returns the header for a frame whose protocol headers are `head`.
pub(crate) fn write(offload: OffloadedWork, head: &[u8]) -> [u8; LENGTH] {
    let mut header = [0; LENGTH];
    let mut put = |at: usize, value: u16| {
        header[at..at + 2].copy_from_slice(&value.to_ne_bytes());
    };
    if let Some(Checksum { start, offset }) = offload.checksum {
        put(6, start);
        put(8, offset);
    }
    if let Some(train) = offload.train {
        put(2, head.len() as u16);
        put(4, train.payload_bytes);
    }
    if offload.checksum.is_some() {
        header[0] = NEEDS_CHECKSUM;
    }
    header[1] = match offload.train.map(|train| train.protocol) {
        None => NONE,
        Some(TrainProtocol::Tcp) if is_v6(head) => TCP6,
        Some(TrainProtocol::Tcp) => TCP4,
        Some(TrainProtocol::Udp) => UDP_L4,
    };
    header
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn written_headers_parse_to_the_same() {
        let checksum = Some(Checksum {
            start: 34,
            offset: 16,
        });
        for protocol in [TrainProtocol::Tcp, TrainProtocol::Udp] {
            let train = Some(Train {
                protocol,
                payload_bytes: 1_448,
            });
            let offload = OffloadedWork { train, checksum };
            for [high, low] in [[0x08, 0], [0x86, 0xdd]] {
                let mut head = [0; 66];
                head[12..14].copy_from_slice(&[high, low]);
                let header = write(offload, &head);
                assert_eq!(read(&header), Some(offload));
                let kind = match (protocol, high) {
                    (TrainProtocol::Udp, _) => UDP_L4,
                    (_, 0x08) => TCP4,
                    _ => TCP6,
                };
                assert_eq!(header[1], kind);
            }
        }
        let partial = OffloadedWork {
            train: None,
            checksum,
        };
        assert_eq!(read(&write(partial, &[0; 54])), Some(partial));
        assert_eq!(write(OffloadedWork::default(), &[0; 54]), [0; LENGTH]);
    }

    #[test]
    fn forms_that_were_not_asked_for_are_refused() {
        let mut header = [0; LENGTH];
        for kind in [2, 3, 6, 7, 0x81, 255] {
            header[1] = kind;
            assert_eq!(read(&header), None, "{kind}");
        }
    }
}
