//! Format of the messages between hosts: the sender's record, and the fields that the link needs.
//!
//! | bytes | content |
//! |---|---|
//! | 0–3 | `TLPB` |
//! | 4 | version, 4 |
//! | 5, 6 | number of the sending and of the receiving host; 255: to all |
//! | 7 | stage: 0 joining, 1 running, 2 closing, 3 bound, 4 standing, 5 ready, 6 stopped |
//! | 8–15 | number of the datagram, growing |
//! | 16–23 | number of the newest datagram that came from the receiver |
//! | 24–31 | reading of the sender's timeline at the time of sending |
//! | 32–39 | error bound of that reading, ns |
//! | 40–55 | the receiver's last stamp, and the time since its arrival; −1 for none |
//! | 56–79 | pause; members; silent members |
//! | 80–83 | ballot |
//! | 84 | sum of 1: holds; 2: drives the wired line |
//! | 85–87 | stopped: reporting host, cause, affected host |
//! | 88–127 | content of the stage, in the order of [`PauseStage`]: instants, joiners, dilations, stops |
//!
//! Numbers are little-endian. A set of hosts has a bit for each host. Instants are in nanoseconds.
//! A dilation is the bits of a double within the bounds of [`Dilation`]; 0 in a vote that requests
//! none. The instant of a stop is the greatest number if there is none. Fields that a stage does
//! not use are zero. The message authentication code is added by the sender's transport.

use timeloom_clock::TimelineTime;
use timeloom_time::{Dilation, Duration, Instant};

use crate::hosts::{HostId, Hosts};
use crate::record::{Halt, HaltCause, HostRecord, PauseStage, Resumption, Vote};

/// Message from one host to another, or to all.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Datagram {
    /// Sending host.
    pub from: HostId,
    /// Receiving host; `None` for all. A datagram to all has no acknowledgement and no echo.
    pub to: Option<HostId>,
    /// Number that grows with every datagram of the sender, and keeps growing when the sender
    /// restarts.
    pub number: u64,
    /// Number of the newest datagram that the sender of this one has received from its receiver; 0
    /// for none.
    pub acknowledges: u64,
    /// Reading of the sender's timeline at the time of sending.
    pub stamp: Instant<TimelineTime>,
    /// Error bound of `stamp`, in either direction.
    pub uncertainty: Duration,
    /// The last stamp that the sender has received from the receiver; `None` for none.
    pub echo: Option<Echo>,
    /// Current record of the sender.
    pub record: HostRecord,
    /// True if the sender drives the wired line that may exist beside the network.
    pub drives: bool,
}

/// Stamp returned to its sender, which measures the round-trip time with it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Echo {
    /// Time stamp of the receiver, which the sender of the datagram returns.
    pub stamp: Instant<TimelineTime>,
    /// Time between the stamp's arrival and its return, by the returning host's timeline.
    pub kept: Duration,
}

impl Datagram {
    /// Size of every datagram, in bytes.
    pub const BYTES: usize = 128;

    /// Encodes the datagram in the format of this module.
    pub fn to_bytes(&self) -> [u8; Self::BYTES] {
        let mut out = [0; Self::BYTES];
        let record = &self.record;
        let (stage, halt, content) = words(&record.stage);
        out[..4].copy_from_slice(MAGIC);
        let to = self.to.map_or(ALL, HostId::number);
        out[4..8].copy_from_slice(&[VERSION, self.from.number(), to, stage]);
        let (stamp, kept) = match self.echo {
            Some(echo) => (echo.stamp.as_ns(), echo.kept.as_ns().max(0)),
            None => (0, -1),
        };
        let words = [
            self.number,
            self.acknowledges,
            self.stamp.as_ns().cast_unsigned(),
            self.uncertainty.as_ns().cast_unsigned(),
            stamp.cast_unsigned(),
            kept.cast_unsigned(),
            record.pause,
            record.members.to_bits(),
            record.silent.to_bits(),
        ];
        put(&mut out[8..80], &words);
        out[80..84].copy_from_slice(&record.ballot.to_le_bytes());
        out[84] = u8::from(record.holds) | u8::from(self.drives) << 1;
        out[85..88].copy_from_slice(&halt);
        put(&mut out[88..], &content);
        out
    }

    /// Decodes bytes from an untrusted source; `None` if they are not a datagram.
    pub fn from_bytes(bytes: &[u8]) -> Option<Self> {
        let bytes: &[u8; Self::BYTES] = bytes.try_into().ok()?;
        let word = |at: usize| {
            let bytes = bytes[at..].first_chunk().expect("a word within a datagram");
            u64::from_le_bytes(*bytes)
        };
        let instant = |at: usize| word(at).cast_signed();
        if &bytes[..4] != MAGIC || bytes[4] != VERSION || bytes[84] > 3 {
            return None;
        }
        let echo = match (instant(40), instant(48)) {
            (0, -1) => None,
            (stamp, kept) if kept >= 0 => Some(Echo {
                stamp: Instant::from_ns(stamp),
                kept: Duration::from_ns(kept),
            }),
            _ => return None,
        };
        let to = match bytes[6] {
            ALL if echo.is_some() || word(16) != 0 => return None,
            ALL => None,
            number => Some(HostId::new(number)?),
        };
        let halt = [bytes[85], bytes[86], bytes[87]];
        let content = [88, 96, 104, 112, 120].map(word);
        let stage = stage(bytes[7], halt, content)?;
        let ballot: &[u8; 4] = bytes[80..].first_chunk()?;
        let uncertainty = Duration::from_ns(instant(32));
        if uncertainty.is_negative() {
            return None;
        }
        Some(Self {
            from: HostId::new(bytes[5])?,
            to,
            number: word(8),
            acknowledges: word(16),
            stamp: Instant::from_ns(instant(24)),
            uncertainty,
            echo,
            record: HostRecord {
                pause: word(56),
                members: Hosts::from_bits(word(64)),
                silent: Hosts::from_bits(word(72)),
                ballot: u32::from_le_bytes(*ballot),
                holds: bytes[84] & 1 == 1,
                stage,
            },
            drives: bytes[84] & 2 == 2,
        })
    }
}

const MAGIC: &[u8; 4] = b"TLPB";
const VERSION: u8 = 4;
/// Number that addresses all hosts; no single host has it.
const ALL: u8 = u8::MAX;

fn put(out: &mut [u8], words: &[u64]) {
    for (bytes, word) in out.chunks_exact_mut(8).zip(words) {
        bytes.copy_from_slice(&word.to_le_bytes());
    }
}

/// Encodes a stage: its number, the three bytes of a halt, and up to five words of content.
fn words(stage: &PauseStage) -> (u8, [u8; 3], [u64; 5]) {
    let content = |number, words| (number, [0; 3], words);
    match *stage {
        PauseStage::Joining => content(0, [0; 5]),
        PauseStage::Running(resumed) => {
            let [from, at, dilation, until] = end(resumed);
            content(1, [from, at, dilation, until, 0])
        }
        PauseStage::Closing { ceiling, before } => {
            let [from, at, dilation, until] = end(before);
            let ceiling = ceiling.as_ns().cast_unsigned();
            content(2, [ceiling, from, at, dilation, until])
        }
        PauseStage::Bound { at } => content(3, [at.as_ns().cast_unsigned(), 0, 0, 0, 0]),
        PauseStage::Standing { at } => content(4, [at.as_ns().cast_unsigned(), 0, 0, 0, 0]),
        PauseStage::Ready { at, vote } => {
            let (go, dilation) = (vote.go.as_ns().cast_unsigned(), vote.dilation);
            let dilation = dilation.map_or(0, Dilation::to_bits);
            content(
                5,
                [
                    at.as_ns().cast_unsigned(),
                    go,
                    vote.joiners.to_bits(),
                    dilation,
                    vote.stop.as_ns().cast_unsigned(),
                ],
            )
        }
        PauseStage::Stopped(Halt { by, why }) => {
            let (why, host) = match why {
                HaltCause::Silent(host) => (0, host.number()),
                HaltCause::Link(host) => (1, host.number()),
                HaltCause::Minority => (2, 0),
                HaltCause::Excluded => (3, 0),
                HaltCause::Restarted(host) => (4, host.number()),
                HaltCause::Failed => (5, 0),
                HaltCause::Line => (6, 0),
            };
            (6, [by.number(), why, host], [0; 5])
        }
    }
}

fn end(resumed: Resumption) -> [u64; 4] {
    let Resumption {
        from,
        at,
        dilation,
        until,
    } = resumed;
    [
        from.as_ns().cast_unsigned(),
        at.as_ns().cast_unsigned(),
        dilation.to_bits(),
        until.as_ns().cast_unsigned(),
    ]
}

fn stage(number: u8, halt: [u8; 3], words: [u64; 5]) -> Option<PauseStage> {
    let [a, b, c, d, e] = words;
    let at = Instant::from_ns(a.cast_signed());
    let end = |from: u64, at: u64, dilation, until: u64| {
        Some(Resumption {
            from: Instant::from_ns(from.cast_signed()),
            at: Instant::from_ns(at.cast_signed()),
            dilation: Dilation::from_bits(dilation)?,
            until: Instant::from_ns(until.cast_signed()),
        })
    };
    let used = [0, 4, 5, 1, 1, 5, 0].get(usize::from(number))?;
    let idle = words[*used..].iter().all(|word| *word == 0);
    if !idle || (number != 6 && halt != [0; 3]) {
        return None;
    }
    Some(match number {
        0 => PauseStage::Joining,
        1 => PauseStage::Running(end(a, b, c, d)?),
        2 => PauseStage::Closing {
            ceiling: at,
            before: end(b, c, d, e)?,
        },
        3 => PauseStage::Bound { at },
        4 => PauseStage::Standing { at },
        5 => PauseStage::Ready {
            at,
            vote: Vote {
                go: Instant::from_ns(b.cast_signed()),
                joiners: Hosts::from_bits(c),
                dilation: match d {
                    0 => None,
                    bits => Some(Dilation::from_bits(bits)?),
                },
                stop: Instant::from_ns(e.cast_signed()),
            },
        },
        _ => {
            let (by, host) = (HostId::new(halt[0])?, HostId::new(halt[2])?);
            let why = match halt[1] {
                0 => HaltCause::Silent(host),
                1 => HaltCause::Link(host),
                4 => HaltCause::Restarted(host),
                _ if halt[2] != 0 => return None,
                2 => HaltCause::Minority,
                3 => HaltCause::Excluded,
                5 => HaltCause::Failed,
                6 => HaltCause::Line,
                _ => return None,
            };
            PauseStage::Stopped(Halt { by, why })
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Generates bytes that are often nearly a datagram.
    fn bytes() -> impl Strategy<Value = Vec<u8>> {
        let anything = prop::collection::vec(any::<u8>(), 0..200);
        let nearly = (
            prop::collection::vec(any::<u8>(), Datagram::BYTES),
            0u8..8,
            0u8..80,
            0u8..8,
            any::<bool>(),
            -1e6..2e6_f64,
        );
        let nearly = nearly.prop_map(|(mut bytes, stage, host, used, to_all, factor)| {
            bytes[..4].copy_from_slice(MAGIC);
            bytes[4..8].copy_from_slice(&[VERSION, host, 0, stage]);
            if to_all {
                bytes[6] = ALL;
                bytes[16..24].fill(0);
                bytes[40..48].fill(0);
                bytes[48..56].fill(0xff);
            }
            bytes[31] = 0;
            bytes[39] &= 0x7f;
            bytes[55] &= 0x7f;
            bytes[84] &= 3;
            bytes[85..88].copy_from_slice(&match stage {
                6 => [host, used, 0],
                _ => [0; 3],
            });
            bytes[88 + 8 * usize::from(used.min(5))..].fill(0);
            if let Some(at) = dilation_at(stage) {
                bytes[at..at + 8].copy_from_slice(&factor.to_bits().to_le_bytes());
                bytes[at + 16..].fill(0);
            }
            bytes
        });
        prop_oneof![1 => anything, 9 => nearly]
    }

    /// Returns the offset of the dilation in a datagram of this stage; `None` if there is none.
    fn dilation_at(stage: u8) -> Option<usize> {
        match stage {
            1 => Some(104),
            2 | 5 => Some(112),
            _ => None,
        }
    }

    proptest! {
        /// Encoding a decoded datagram restores its bytes: no message has two encodings, and no
        /// byte is ignored.
        #[test]
        fn a_decoded_datagram_encodes_to_the_same_bytes(bytes in bytes()) {
            if let Some(datagram) = Datagram::from_bytes(&bytes) {
                prop_assert_eq!(datagram.to_bytes().to_vec(), bytes);
            }
        }

        /// Most of the generated, nearly valid inputs are valid, so the property above is not
        /// vacuous.
        #[test]
        fn every_stage_can_be_read(stage in 0u8..7, a in any::<u64>()) {
            let mut bytes = [0; Datagram::BYTES];
            bytes[..8].copy_from_slice(&[b'T', b'L', b'P', b'B', VERSION, 2, 3, stage]);
            bytes[48..56].fill(0xff);
            if stage != 0 && stage != 6 {
                bytes[88..96].copy_from_slice(&a.to_le_bytes());
            }
            if let Some(at) = dilation_at(stage) {
                for factor in [f64::NAN, f64::INFINITY, -1.0, 0.9e-6, 1.1e6] {
                    bytes[at..at + 8].copy_from_slice(&factor.to_bits().to_le_bytes());
                    prop_assert_eq!(Datagram::from_bytes(&bytes), None);
                }
                bytes[at..at + 8].copy_from_slice(&3_f64.to_bits().to_le_bytes());
            }
            let datagram = Datagram::from_bytes(&bytes).expect("a good datagram");
            prop_assert_eq!(datagram.to_bytes(), bytes);
            for cut in 0..bytes.len() {
                prop_assert_eq!(Datagram::from_bytes(&bytes[..cut]), None);
            }
        }
    }
}
