//! Keyed tags, by which a receiver recognises bytes of a sender that has the same secret.
//!
//! A tag is the first half of a keyed BLAKE3 hash. It authenticates bytes, and does not encrypt them.
//! Every transport between Timeloom's processes uses these keys; a transport adds its own numbers,
//! against replays, to the tagged bytes.

use std::fmt;
use std::fs::File;
use std::io::{self, Read};

use data_encoding::HEXLOWER_PERMISSIVE;
use subtle::ConstantTimeEq as _;

/// Length of a tag, in bytes.
pub const TAG_BYTES: usize = 16;

/// Secret of 32 bytes that senders and receivers share. It is not shown by `Debug`.
#[derive(Clone)]
pub struct SealKey([u8; 32]);

impl SealKey {
    /// Creates a key of these bytes, which must be random and have no other use.
    pub const fn new(bytes: [u8; 32]) -> Self {
        Self(bytes)
    }

    /// Derives a key from random bytes, which may serve for other purposes with another `context`.
    pub fn derive(context: &str, bytes: &[u8; 32]) -> Self {
        Self(blake3::derive_key(context, bytes))
    }

    /// Derives a key from this one and from the concatenation of `parts`.
    pub fn derived(&self, parts: &[&[u8]]) -> Self {
        Self(*self.hash(parts).as_bytes())
    }

    /// Returns the bytes of the key, from which other keys are derived.
    pub const fn bytes(&self) -> &[u8; 32] {
        &self.0
    }

    /// Returns the tag of the concatenation of `parts`.
    pub fn tag(&self, parts: &[&[u8]]) -> [u8; TAG_BYTES] {
        let hash = self.hash(parts);
        let (tag, _) = hash.as_bytes().split_first_chunk().expect("32 bytes");
        *tag
    }

    /// Returns true if `tag` is that of the concatenation of `parts`. The comparison takes constant
    /// time, so that its duration does not reveal the position of a difference.
    pub fn verifies(&self, parts: &[&[u8]], tag: &[u8]) -> bool {
        self.tag(parts).ct_eq(tag).into()
    }

    fn hash(&self, parts: &[&[u8]]) -> blake3::Hash {
        let mut hasher = blake3::Hasher::new_keyed(&self.0);
        for part in parts {
            hasher.update(part);
        }
        hasher.finalize()
    }
}

impl fmt::Debug for SealKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SealKey(..)")
    }
}

/// Parses 64 hexadecimal digits, the content of a key file; `None` if the text is something else.
pub fn parse_key(text: &str) -> Option<[u8; 32]> {
    let bytes = HEXLOWER_PERMISSIVE.decode(text.trim().as_bytes());
    bytes.ok()?.try_into().ok()
}

/// Draws 32 random bytes.
///
/// # Errors
/// Fails if the kernel's generator cannot be read.
pub fn draw() -> io::Result<[u8; 32]> {
    let mut bytes = [0; 32];
    File::open("/dev/urandom")?.read_exact(&mut bytes)?;
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tag_is_of_one_key_and_of_all_bytes() {
        let key = SealKey::derive("a test", &[1; 32]);
        let tag = key.tag(&[b"one", b"two"]);
        assert!(key.verifies(&[b"onetwo"], &tag), "parts are concatenated");
        assert!(!key.verifies(&[b"one", b"twp"], &tag));
        assert!(!key.verifies(&[b"one", b"two"], &tag[1..]));
        assert!(!SealKey::new([1; 32]).verifies(&[b"onetwo"], &tag));
        let other = key.derived(&[b"one"]);
        assert!(!other.verifies(&[b"onetwo"], &tag));
        assert_eq!(format!("{key:?}"), "SealKey(..)");
    }

    #[test]
    fn a_key_is_read_from_64_digits() {
        let digits = "0f".repeat(32);
        assert_eq!(parse_key(&format!(" {digits}\n")), Some([15; 32]));
        assert_eq!(parse_key(&digits[1..]), None);
        assert_eq!(parse_key("x"), None);
        assert_ne!(draw().expect("random bytes"), draw().expect("random bytes"));
    }
}
