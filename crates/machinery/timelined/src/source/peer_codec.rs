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

use std::path::{Path, PathBuf};

use hmac::{Hmac, Mac};
use sha2::Sha256;
use timeloom_clock::quality::TimelineId;
use timeloom_sys::secret::{self, SecretError};

/// Length of a packet in either direction, in bytes.
pub(crate) const LENGTH: usize = 96;

const SIGNED: usize = 64;

const LEAST_KEY_BYTES: usize = 16;
const MOST_KEY_BYTES: u64 = 1 << 16;

/// Secret that all peers share.
#[derive(Clone)]
pub(crate) struct Key(Vec<u8>);

/// Reason why the key of the peers is unusable.
#[derive(Debug, thiserror::Error)]
pub(crate) enum KeyError {
    /// The key file is missing or not trustworthy.
    #[error(transparent)]
    File(#[from] SecretError),
    /// The secret is so short that a brute-force attack could find it.
    #[error("{}: a key must have at least {LEAST_KEY_BYTES} bytes", .0.display())]
    Short(PathBuf),
}

impl Key {
    /// # Errors
    /// Fails if the file cannot be read, is accessible to other users, or holds less than 16 bytes.
    pub(crate) fn read(path: &Path) -> Result<Self, KeyError> {
        let bytes = secret::read(path, MOST_KEY_BYTES)?;
        if bytes.len() < LEAST_KEY_BYTES {
            return Err(KeyError::Short(path.to_owned()));
        }
        Ok(Self(bytes))
    }

    /// Creates a key from bytes in memory.
    pub(crate) fn of(bytes: &[u8]) -> Self {
        Self(bytes.to_vec())
    }

    /// Returns HMAC-SHA256 (RFC 2104) with this key, after it has processed `message`.
    fn code(&self, message: &[u8]) -> Hmac<Sha256> {
        let keyed = Hmac::new_from_slice(&self.0).expect("HMAC takes keys of any length");
        Mac::chain_update(keyed, message)
    }
}

impl core::fmt::Debug for Key {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str("Key")
    }
}

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
    pub(crate) fn emit(&self, key: Option<&Key>) -> [u8; LENGTH] {
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
            let signature = key.code(&packet[..SIGNED]).finalize().into_bytes();
            packet[SIGNED..].copy_from_slice(&signature);
        }
        packet
    }

    /// Decodes a packet. Returns `None` if the bytes are not a packet, or if a key is given and the
    /// signature does not verify with it.
    pub(crate) fn parse(packet: &[u8], key: Option<&Key>) -> Option<Self> {
        if packet.len() != LENGTH || packet[..4] != *b"TLPX" || packet[4] != 1 {
            return None;
        }
        if let Some(key) = key {
            // In constant time, so that the duration reveals nothing about the signature.
            let code = key.code(&packet[..SIGNED]);
            code.verify_slice(&packet[SIGNED..]).ok()?;
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

    #[test]
    fn the_signature_is_the_published_one() {
        // RFC 4231, test cases 1 and 6 (a key longer than a block).
        let short = Key(vec![0x0b; 20])
            .code(b"Hi There")
            .finalize()
            .into_bytes();
        assert_eq!(short[..4], [0xb0, 0x34, 0x4c, 0x61]);
        let message = b"Test Using Larger Than Block-Size Key - Hash Key First";
        let long = Key(vec![0xaa; 131]).code(message).finalize().into_bytes();
        assert_eq!(long[..4], [0x60, 0xe4, 0x31, 0x59]);
    }

    #[test]
    fn a_key_has_sixteen_bytes_and_is_its_owner_s_alone() {
        use std::os::unix::fs::PermissionsExt;
        let place = tempfile::tempdir().expect("a directory");
        let path = place.path().join("key");
        let write = |length, mode| {
            std::fs::write(&path, vec![7; length]).expect("a key");
            let permissions = std::fs::Permissions::from_mode(mode);
            std::fs::set_permissions(&path, permissions).expect("our own file");
        };
        write(16, 0o600);
        Key::read(&path).expect("it is one");
        write(15, 0o600);
        assert!(matches!(Key::read(&path), Err(KeyError::Short(_))));
        write(16, 0o640);
        assert!(matches!(Key::read(&path), Err(KeyError::File(_))));
    }

    proptest! {
        #[test]
        fn packets_come_back_and_bent_ones_are_noticed(
            timeline in any::<u128>(), nonce in any::<u64>(), asked_ns in any::<i64>(),
            error_ns in 0i64..i64::MAX, bend in 0usize..LENGTH, with in 1u8..,
        ) {
            let key = Key(vec![7; 32]);
            let shown = PeerReading { asked_ns, answered_ns: asked_ns ^ 5, error_ns };
            for kind in [Kind::Question, Kind::Answer(None), Kind::Answer(Some(shown))] {
                let packet = Packet { timeline: TimelineId(timeline), nonce, kind };
                let mut bytes = packet.emit(Some(&key));
                prop_assert_eq!(Packet::parse(&bytes, Some(&key)), Some(packet));
                prop_assert_eq!(Packet::parse(&bytes, Some(&Key(vec![8; 32]))), None);
                bytes[bend] ^= with;
                prop_assert_eq!(Packet::parse(&bytes, Some(&key)), None);
                prop_assert_eq!(Packet::parse(&bytes[..bend], None), None);
            }
        }
    }
}
