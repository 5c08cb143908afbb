//! Seals of messages: without the key, no program can write or replay a message.
//!
//! A sealed message consists of the magic number, the sender (16 random bytes), a count, an
//! HMAC-SHA256, and the body. The HMAC covers the magic number, the sender, the count, the name
//! under which the message is sent, and the body. A seal authenticates the body but does not
//! encrypt it.

use parking_lot::Mutex;
use std::collections::HashMap;
use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::shared_key::{SharedKey, ShortKey, TAG_BYTES};
use crate::{Order, Stamp};
use rustix::rand::{GetRandomFlags, getrandom};

/// Maximum memory for senders and names, measured by [`cost`]. Messages of further senders are
/// refused, because a receiver that forgets a sender's count would accept replays.
const MOST_REMEMBERED_BYTES: usize = 16 << 20;

const MAGIC: &[u8; 4] = b"TLS1";
const SENDER_BYTES: usize = 16;
const HEADER_BYTES: usize = 4 + SENDER_BYTES + 8;

/// Seal of one program: it seals the messages that the program sends, and opens those of others
/// with the same key.
pub struct Seal {
    key: SharedKey,
    sender: [u8; SENDER_BYTES],
    count: AtomicU64,
    last_counts: Mutex<LastCounts>,
}

/// Last count received from each sender, so that no message is accepted twice.
#[derive(Default)]
struct LastCounts {
    /// Last count of each sender under each name. Only a holder of the key can make the map grow.
    last: HashMap<([u8; SENDER_BYTES], String), u64>,
    bytes: usize,
}

/// Reason why a message is not proved to be authentic and new.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum AuthenticityError {
    /// The message has no seal.
    #[error("not sealed")]
    Unsealed,
    /// The message was sealed with another key or under another name, or was modified.
    #[error("the key or name differs, or the message was altered")]
    Forged,
    /// This message, or a later one of the same sender, was received before.
    #[error("said before")]
    Again,
    /// The message was certainly sent before its receiver started, or it does not state when it was
    /// sent.
    #[error("possibly sent before this receiver began to listen")]
    Old,
    /// The memory limit for senders and names is reached, so this sender cannot be remembered.
    #[error("too many senders and names to remember")]
    Crowded,
}

/// Body of a message that was sealed with our key.
pub(crate) struct Proved<'b> {
    sender: [u8; SENDER_BYTES],
    count: u64,
    /// True if no message of this sender was received under this name before.
    pub(crate) is_first: bool,
    pub(crate) body: &'b [u8],
}

impl fmt::Debug for Seal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Seal(..)")
    }
}

impl Seal {
    /// Creates a seal with a key that all programs share. Each seal is a new sender.
    ///
    /// # Errors
    /// Fails if the key is shorter than [`LEAST_KEY_BYTES`](super::LEAST_KEY_BYTES).
    pub fn new(key: &[u8]) -> Result<Self, ShortKey> {
        Ok(Self {
            key: SharedKey::new(key)?,
            sender: random(),
            count: AtomicU64::new(0),
            last_counts: Mutex::default(),
        })
    }

    /// Seals a body that is sent under `name`, with a unique count.
    pub fn seal(&self, name: &str, body: &[u8]) -> Vec<u8> {
        let count = self.count.fetch_add(1, Ordering::Relaxed) + 1;
        let mut bytes = Vec::with_capacity(HEADER_BYTES + TAG_BYTES + body.len());
        bytes.extend(MAGIC);
        bytes.extend(self.sender);
        bytes.extend(count.to_be_bytes());
        let length = length_of(name);
        let tag = self.key.tag(&[&bytes, &length, name.as_bytes(), body]);
        bytes.extend(tag);
        bytes.extend(body);
        bytes
    }

    /// Returns the body, if it was sealed with our key under this name and was not received before.
    ///
    /// # Errors
    /// Fails with the reason if the message is not proved to be authentic and new.
    pub fn open<'b>(&self, name: &str, bytes: &'b [u8]) -> Result<&'b [u8], AuthenticityError> {
        let proved = self.prove(name, bytes)?;
        self.remember(name, &proved)?;
        Ok(proved.body)
    }

    pub(crate) fn prove<'b>(
        &self,
        name: &str,
        bytes: &'b [u8],
    ) -> Result<Proved<'b>, AuthenticityError> {
        let (header, rest) = bytes
            .split_at_checked(HEADER_BYTES)
            .ok_or(AuthenticityError::Unsealed)?;
        let (tag, body) = rest
            .split_at_checked(TAG_BYTES)
            .ok_or(AuthenticityError::Unsealed)?;
        let Some((sender, count)) = header
            .strip_prefix(MAGIC)
            .and_then(|rest| rest.split_first_chunk::<SENDER_BYTES>())
        else {
            return Err(AuthenticityError::Unsealed);
        };
        let count = u64::from_be_bytes(count.try_into().map_err(|_| AuthenticityError::Unsealed)?);
        let tagged = [header, &length_of(name), name.as_bytes(), body];
        if !self.key.verifies(&tagged, tag) {
            return Err(AuthenticityError::Forged);
        }
        let counts = self.last_counts.lock();
        let before = counts.last.get(&(*sender, name.to_owned())).copied();
        if before.is_some_and(|before| count <= before) {
            return Err(AuthenticityError::Again);
        }
        Ok(Proved {
            sender: *sender,
            count,
            is_first: before.is_none(),
            body,
        })
    }

    /// Records the message, so that a repetition is refused. If two threads have received the same
    /// message, the later call fails.
    pub(crate) fn remember(
        &self,
        name: &str,
        proved: &Proved<'_>,
    ) -> Result<(), AuthenticityError> {
        let mut counts = self.last_counts.lock();
        counts.remember(name, proved)
    }
}

/// Returns the length of a name, as it is tagged.
fn length_of(name: &str) -> [u8; 4] {
    (name.len() as u32).to_be_bytes()
}

impl LastCounts {
    fn remember(&mut self, name: &str, proved: &Proved<'_>) -> Result<(), AuthenticityError> {
        let key = (proved.sender, name.to_owned());
        if let Some(before) = self.last.get_mut(&key) {
            if proved.count <= *before {
                return Err(AuthenticityError::Again);
            }
            *before = proved.count;
            return Ok(());
        }
        if self.bytes + cost(name) > MOST_REMEMBERED_BYTES {
            return Err(AuthenticityError::Crowded);
        }
        self.bytes += cost(name);
        self.last.insert(key, proved.count);
        Ok(())
    }
}

/// Returns the approximate memory in bytes for one sender under this name.
fn cost(name: &str) -> usize {
    2 * size_of::<([u8; SENDER_BYTES], String, u64)>() + name.len()
}

/// Returns true if both stamps are of the same timeline and `sent` is not certainly before `since`.
/// Returns false if either has no interval, because such a stamp may be of any time.
pub(crate) fn may_be_after(sent: &Stamp, since: &Stamp) -> bool {
    sent.interval().is_some()
        && since.interval().is_some()
        && sent
            .compare(since)
            .is_ok_and(|order| order != Order::Before)
}

/// Returns random bytes that are unique for every seal.
fn random() -> [u8; SENDER_BYTES] {
    let mut bytes = [0; SENDER_BYTES];
    let mut filled = 0;
    while filled < bytes.len() {
        // The kernel returns all of so few bytes, or fails while its generator is not ready yet.
        filled += getrandom(&mut bytes[filled..], GetRandomFlags::empty()).unwrap_or(0);
    }
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    const KEY: &[u8] = b"kkkkkkkkkkkkkkkk";

    #[test]
    fn a_seal_refuses_another_key_a_change_a_replay_and_another_name() {
        let (here, there) = (Seal::new(KEY).unwrap(), Seal::new(KEY).unwrap());
        let first = here.seal("cell/move", b"one");
        let second = here.seal("cell/move", b"two");
        assert_eq!(there.open("cell/move", &first), Ok(&b"one"[..]));
        assert_eq!(
            there.open("cell/move", &first),
            Err(AuthenticityError::Again)
        );
        for at in 0..second.len() {
            let mut changed = second.clone();
            changed[at] ^= 1;
            let refused = there.open("cell/move", &changed);
            let why = if at < 4 {
                AuthenticityError::Unsealed
            } else {
                AuthenticityError::Forged
            };
            assert_eq!(refused, Err(why), "byte {at}");
            let short = there.open("cell/move", &second[..at]);
            let why = if at < 60 {
                AuthenticityError::Unsealed
            } else {
                AuthenticityError::Forged
            };
            assert_eq!(short, Err(why), "{at} bytes");
        }
        assert_eq!(
            there.open("cell/stop", &second),
            Err(AuthenticityError::Forged)
        );
        let other = Seal::new(b"xxxxxxxxxxxxxxxx").unwrap();
        assert_eq!(
            other.open("cell/move", &second),
            Err(AuthenticityError::Forged)
        );
        assert_eq!(there.open("cell/move", &second), Ok(&b"two"[..]));
        assert_eq!(
            there.open("cell/move", &first),
            Err(AuthenticityError::Again),
            "older"
        );
        assert_eq!(Seal::new(b"short").err(), Some(ShortKey(5)));
    }

    #[test]
    fn a_key_holder_takes_bounded_memory_and_cannot_cause_replays() {
        let (here, there) = (Seal::new(KEY).unwrap(), Seal::new(KEY).unwrap());
        let first = here.seal("cell/move", b"one");
        assert_eq!(there.open("cell/move", &first), Ok(&b"one"[..]));
        let (mut taken, mut number) = (0, 0);
        let refused = loop {
            number += 1;
            let name = format!("{number:060000}");
            let sealed = here.seal(&name, b"");
            match there.open(&name, &sealed) {
                Ok(_) => taken += name.len(),
                Err(why) => break why,
            }
            assert!(taken <= MOST_REMEMBERED_BYTES, "{number} names");
        };
        assert_eq!(refused, AuthenticityError::Crowded);
        assert_eq!(
            there.open("cell/move", &first),
            Err(AuthenticityError::Again)
        );
        let next = here.seal("cell/move", b"two");
        assert_eq!(there.open("cell/move", &next), Ok(&b"two"[..]));
    }

    /// Compares with bytes that Python's `timeloom.seal` wrote before it used this crate.
    #[test]
    fn the_bytes_are_those_of_before() {
        let mut sealed = b"TLS1".to_vec();
        sealed.extend([7; 16]);
        sealed.extend(3_u64.to_be_bytes());
        let tag: [u8; 32] = [
            0x64, 0x97, 0x07, 0xfc, 0xb2, 0xe9, 0x8e, 0x77, 0x6b, 0x36, 0xab, 0x04, 0x3f, 0x10,
            0xa3, 0x78, 0x82, 0x8a, 0xcf, 0xde, 0x99, 0xf7, 0x62, 0x30, 0xc2, 0xab, 0x73, 0x56,
            0x07, 0x14, 0x09, 0xd2,
        ];
        sealed.extend(tag);
        sealed.extend(b"body");
        let there = Seal::new(KEY).unwrap();
        assert_eq!(there.open("a/b", &sealed), Ok(&b"body"[..]));
    }
}
