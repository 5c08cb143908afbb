use std::collections::HashMap;

use timeloom_engine::Random;

use super::*;
use crate::segments;

/// Sender of a flow. Its state determines the headers of the next frame.
struct Sender {
    protocol: u8,
    over_v6: bool,
    port: u16,
    sequence: u32,
    identification: u16,
    bytes: u8,
}

/// Properties in which a frame differs from the one before it.
#[derive(Clone, Copy, Default)]
struct Unlike {
    flags: u8,
    acknowledged: u32,
    tos: u8,
    /// True if the transport header is in the frame's rest and not in its head.
    apart: bool,
    /// True if the checksum is complete and not left to the receiver.
    complete: bool,
}

impl Sender {
    fn new(protocol: u8, port: u16) -> Self {
        Self {
            protocol,
            over_v6: false,
            port,
            sequence: 0xffff_f000,
            identification: 65_530,
            bytes: 0,
        }
    }

    fn over_v6(self) -> Self {
        Self {
            over_v6: true,
            ..self
        }
    }

    /// Returns the Ethernet and IP headers of a packet with `inner` bytes after the IP header.
    fn network(&self, inner: u16, tos: u8) -> Vec<u8> {
        let mut head = vec![2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2];
        if self.over_v6 {
            let [high, low] = inner.to_be_bytes();
            head.extend([0x86, 0xdd, 0x60 | tos >> 4, tos << 4, 0, 7, high, low]);
            head.extend([self.protocol, 63]);
            for last in [1, 6] {
                head.extend([0xfd, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, last]);
            }
            return head;
        }
        let mut ip = vec![0x45, tos, 0, 0, 0, 0, 0, 0, 63, self.protocol, 0, 0];
        ip.extend([10, 0, 0, 1, 10, 0, 0, 6]);
        put(&mut ip, 2, 20 + inner);
        put(&mut ip, 4, self.identification);
        put_sum(&mut ip);
        head.extend([8, 0]);
        head.extend(ip);
        head
    }

    /// Returns the next frame, with `payload` bytes in segments of `each` bytes.
    fn next(&mut self, payload: usize, each: usize, unlike: Unlike) -> Owned {
        let tcp = self.protocol == 6;
        let header = if tcp { 32 } else { 8 };
        let segments = payload.div_ceil(each);
        let length = (header + payload) as u16;
        let mut head = self.network(length, unlike.tos);
        let network = head.len() as u16;
        let mut transport = vec![0; header];
        put(&mut transport, 0, self.port);
        put(&mut transport, 2, 5_201);
        let place = if tcp {
            transport[4..8].copy_from_slice(&self.sequence.to_be_bytes());
            transport[8..12].copy_from_slice(&unlike.acknowledged.to_be_bytes());
            transport[12] = 8 << 4;
            transport[13] = ACK | unlike.flags;
            put(&mut transport, 14, 501);
            transport[20..32].copy_from_slice(&[1, 1, 8, 10, 0, 0, 0, 7, 0, 0, 0, 8]);
            16
        } else {
            put(&mut transport, 4, length);
            6
        };
        let inner = u64::from(length) + u64::from(self.protocol);
        let ends = addresses(&head[ETHERNET..]);
        put(&mut transport, place, fold(add(inner, ends)));
        self.sequence = self.sequence.wrapping_add(payload as u32);
        self.identification = self.identification.wrapping_add(segments as u16);
        let mut rest = Vec::new();
        if unlike.apart && segments == 1 {
            rest.extend(transport);
        } else {
            head.extend(transport);
        }
        rest.extend((0..payload).map(|_| {
            self.bytes = self.bytes.wrapping_mul(31).wrapping_add(7);
            self.bytes
        }));
        let protocol = if tcp {
            TrainProtocol::Tcp
        } else {
            TrainProtocol::Udp
        };
        let train = (segments > 1).then_some(Train {
            protocol,
            payload_bytes: each as u16,
        });
        let checksum = (!unlike.complete || segments > 1).then_some(Checksum {
            start: network,
            offset: place as u16,
        });
        Owned {
            head,
            rest,
            offload: OffloadedWork { train, checksum },
        }
    }
}

struct Owned {
    head: Vec<u8>,
    rest: Vec<u8>,
    offload: OffloadedWork,
}

impl Owned {
    fn frame(&self) -> Frame<'_> {
        Frame {
            at: Instant::ZERO,
            first_bit: Instant::ZERO,
            head: &self.head,
            rest: &self.rest,
            offload: self.offload,
        }
    }
}

/// Frames that were sent: in wire format, by source port, and the number of frames before
/// segmentation.
#[derive(Default)]
struct Out {
    wire: HashMap<u16, Vec<Vec<u8>>>,
    frames: u64,
    of: u64,
}

impl Out {
    fn note(&mut self, frame: &Frame<'_>, of: u64) {
        self.frames += 1;
        self.of += of;
        segments(frame, &mut Vec::new(), |bytes| {
            let at = ETHERNET + header_of(&bytes[ETHERNET..]);
            let port = u16::from_be_bytes([bytes[at], bytes[at + 1]]);
            self.wire.entry(port).or_default().push(bytes.to_vec());
        });
    }
}

fn joined(frames: &[Owned]) -> Out {
    let (mut joiner, mut out) = (Joiner::default(), Out::default());
    for owned in frames {
        joiner.add(&owned.frame(), |frame, of| out.note(frame, of));
    }
    joiner.flush(|frame, of| out.note(frame, of));
    out
}

#[test]
fn a_wire_carries_the_same_bytes_for_any_joined_frames() {
    for seed in 0..300 {
        let mut random = Random::new(seed, 0);
        let mut senders: Vec<_> = (0..12)
            .map(|index| {
                let sender = Sender::new(if index % 3 == 0 { 17 } else { 6 }, 1_000 + index);
                if index % 2 == 0 {
                    sender
                } else {
                    sender.over_v6()
                }
            })
            .collect();
        let mut frames = Vec::new();
        for _ in 0..200 {
            let mut below = |bound: u64| random.bits() % bound;
            let flow = below(if seed % 2 == 0 { 3 } else { 12 }) as usize;
            let each = if below(8) == 0 { 700 } else { 1_448 };
            let payload = match below(6) {
                0 => 1 + below(each) as usize,
                1 => below(9) as usize * each as usize + 1 + below(each) as usize,
                2 => 40 * each as usize,
                count => count as usize * each as usize,
            };
            let payload = payload.min(60_000);
            let unlike = Unlike {
                flags: [0, 0, 0, 0, PSH, 0x01, ECE, 0x02][below(8) as usize],
                acknowledged: (below(10) == 0).into(),
                tos: if below(12) == 0 { 3 } else { 2 },
                apart: below(2) == 0,
                complete: below(12) == 0,
            };
            frames.push(senders[flow].next(payload, each as usize, unlike));
        }
        let mut alone = Out::default();
        for owned in &frames {
            alone.note(&owned.frame(), 1);
        }
        let out = joined(&frames);
        assert!(out.wire == alone.wire, "seed {seed}");
        assert_eq!(out.of, 200);
        assert!(out.frames < 200, "seed {seed} joined none");
    }
}

#[test]
fn a_row_of_parts_becomes_one_train() {
    for (protocol, over_v6) in [(6, false), (17, false), (6, true), (17, true)] {
        let mut sender = Sender::new(protocol, 9);
        sender.over_v6 = over_v6;
        let apart = Unlike {
            apart: true,
            ..Unlike::default()
        };
        let frames: Vec<_> = (0..10).map(|_| sender.next(1_400, 1_400, apart)).collect();
        let out = joined(&frames);
        assert_eq!((out.frames, out.of, out.wire[&9].len()), (1, 10, 10));
    }
}

#[test]
fn no_train_is_longer_than_a_packet_may_be() {
    for (protocol, each, at_most) in [(6, 1_448, 45), (17, 1_000, 64)] {
        let mut sender = Sender::new(protocol, 9);
        let frames: Vec<_> = (0..2 * at_most)
            .map(|_| sender.next(each, each, Unlike::default()))
            .collect();
        let (mut joiner, mut longest) = (Joiner::default(), 0);
        for owned in &frames {
            joiner.add(&owned.frame(), |_, of| longest = longest.max(of));
        }
        joiner.flush(|_, of| longest = longest.max(of));
        assert_eq!(longest, at_most);
    }
}

#[test]
fn segments_with_different_headers_are_not_joined() {
    let unlike = [
        Unlike {
            flags: 0x01,
            ..Unlike::default()
        },
        Unlike {
            flags: ECE,
            ..Unlike::default()
        },
        Unlike {
            acknowledged: 5,
            ..Unlike::default()
        },
        Unlike {
            tos: 3,
            ..Unlike::default()
        },
        Unlike {
            complete: true,
            ..Unlike::default()
        },
    ];
    for (index, unlike) in unlike.into_iter().enumerate() {
        let mut sender = Sender::new(6, 9);
        let frames = [
            sender.next(1_448, 1_448, Unlike::default()),
            sender.next(1_448, 1_448, unlike),
        ];
        assert_eq!(joined(&frames).frames, 2, "{index}");
    }
    // Frames that do not continue the first one are not joined with it.
    let mut sender = Sender::new(6, 9);
    let first = sender.next(1_448, 1_448, Unlike::default());
    sender.next(1_448, 1_448, Unlike::default());
    let third = sender.next(1_448, 1_448, Unlike::default());
    assert_eq!(joined(&[first, third]).frames, 2);
}

#[test]
fn rubbish_goes_out_as_it_is() {
    let mut random = Random::new(3, 0);
    let mut joiner = Joiner::default();
    for round in 0..20_000 {
        let mut sender = Sender::new(if round % 2 == 0 { 6 } else { 17 }, 9);
        sender.over_v6 = round % 3 == 0;
        let mut owned = sender.next(
            1 + (random.bits() % 3_000) as usize,
            1_448,
            Unlike::default(),
        );
        for _ in 0..1 + random.bits() % 4 {
            let at = random.bits() as usize % owned.head.len();
            owned.head[at] = random.bits() as u8;
        }
        let length = 14 + random.bits() as usize % (owned.head.len() - 13);
        owned.head.truncate(length);
        joiner.add(&owned.frame(), |_, _| ());
    }
    joiner.flush(|_, _| ());
    assert!(joiner.held.is_empty());
}
