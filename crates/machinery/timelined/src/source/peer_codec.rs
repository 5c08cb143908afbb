//! Two-way exchange between daemons: one request and one answer, each of [`LENGTH`] bytes, so that
//! an answer is never longer than its request. All fields are big endian.
//!
//! | byte | content |
//! |---|---|
//! | 0 | `TLPX` |
//! | 4 | version 1; 1 request, 2 answer; two bytes 0 |
//! | 8 | the timeline's id |
//! | 24 | nonce of the request, random |
//! | 32 | answer: the middle of the interval at the arrival of the request, ns |
//! | 40 | answer: the same at the departure of the answer |
//! | 48 | answer: half of the wider interval, ns; all ones if there is none |
//! | 56 | zero |
//! | 64 | HMAC-SHA256 of bytes 0–63 with the shared key; zero without a key |

use timeloom_clock::quality::TimelineId;
use timeloom_timeline::SharedKey;

/// Length of a packet in either direction, in bytes.
pub(crate) const LENGTH: usize = 96;

const SIGNED: usize = 64;

/// Decoded packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Packet {
    pub(crate) timeline: TimelineId,
    pub(crate) nonce: u64,
    pub(crate) kind: Kind,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Question,
    Answer(Option<PeerReading>),
}

/// Readings of the answering host's timeline.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct PeerReading {
    pub(crate) asked_ns: i64,
    pub(crate) answered_ns: i64,
    pub(crate) error_ns: i64,
}

impl Packet {
    pub(crate) fn emit(&self, key: Option<&SharedKey>) -> [u8; LENGTH] {
        let mut packet = [0; LENGTH];
        let mut put = |at: usize, bytes: &[u8]| packet[at..at + bytes.len()].copy_from_slice(bytes);
        put(0, b"TLPX");
        put(8, &self.timeline.0.to_be_bytes());
        put(24, &self.nonce.to_be_bytes());
        match self.kind {
            Kind::Question => put(4, &[1, 1]),
            Kind::Answer(shown) => {
                put(4, &[1, 2]);
                put(48, &u64::MAX.to_be_bytes());
                if let Some(shown) = shown {
                    put(32, &shown.asked_ns.to_be_bytes());
                    put(40, &shown.answered_ns.to_be_bytes());
                    put(48, &shown.error_ns.to_be_bytes());
                }
            }
        }
        if let Some(key) = key {
            let signature = key.tag(&[&packet[..SIGNED]]);
            packet[SIGNED..].copy_from_slice(&signature);
        }
        packet
    }

    /// Decodes a packet. Returns `None` if the bytes are not a packet, or if a key is given and the
    /// signature does not verify with it.
    pub(crate) fn parse(packet: &[u8], key: Option<&SharedKey>) -> Option<Self> {
        if packet.len() != LENGTH || packet[..4] != *b"TLPX" || packet[4] != 1 {
            return None;
        }
        let (signed, signature) = packet.split_at(SIGNED);
        if key.is_some_and(|key| !key.verifies(&[signed], signature)) {
            return None;
        }
        let word = |at: usize| {
            let mut word = [0; 8];
            word.copy_from_slice(&packet[at..at + 8]);
            u64::from_be_bytes(word)
        };
        let kind = match packet[5] {
            1 => Kind::Question,
            2 => Kind::Answer(i64::try_from(word(48)).ok().map(|error_ns| PeerReading {
                asked_ns: word(32) as i64,
                answered_ns: word(40) as i64,
                error_ns,
            })),
            _ => return None,
        };
        Some(Self {
            timeline: TimelineId(u128::from(word(8)) << 64 | u128::from(word(16))),
            nonce: word(24),
            kind,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn packets_come_back_and_bent_ones_are_noticed(
            timeline in any::<u128>(), nonce in any::<u64>(), asked_ns in any::<i64>(),
            error_ns in 0i64..i64::MAX, bend in 0usize..LENGTH, with in 1u8..,
        ) {
            let key = SharedKey::new(&[7; 32]).expect("a key");
            let other = SharedKey::new(&[8; 32]).expect("a key");
            let shown = PeerReading { asked_ns, answered_ns: asked_ns ^ 5, error_ns };
            for kind in [Kind::Question, Kind::Answer(None), Kind::Answer(Some(shown))] {
                let packet = Packet { timeline: TimelineId(timeline), nonce, kind };
                let mut bytes = packet.emit(Some(&key));
                prop_assert_eq!(Packet::parse(&bytes, Some(&key)), Some(packet));
                prop_assert_eq!(Packet::parse(&bytes, Some(&other)), None);
                bytes[bend] ^= with;
                prop_assert_eq!(Packet::parse(&bytes, Some(&key)), None);
                prop_assert_eq!(Packet::parse(&bytes[..bend], None), None);
            }
        }
    }
}
