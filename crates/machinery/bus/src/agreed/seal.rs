//! A datagram with its seal: keyed BLAKE3 of all before, 16 bytes.

use timeloom_accord::Datagram;

/// The key of a run: all its hosts have it, nobody else.
#[derive(Clone)]
pub struct Key([u8; 32]);

impl Key {
    /// From bytes that were drawn for this run.
    pub fn new(bytes: &[u8; 32]) -> Self {
        // The same bytes may serve other purposes under another name.
        Self(blake3::derive_key("timeloom pause bus 1", bytes))
    }

    /// From 64 hexadecimal digits, as in a key file.
    pub fn from_hex(text: &str) -> Option<Self> {
        parse_key(text).map(|bytes| Self::new(&bytes))
    }

    pub(crate) fn seal(&self, datagram: &Datagram) -> [u8; SEALED] {
        let mut out = [0; SEALED];
        out[..Datagram::BYTES].copy_from_slice(&datagram.to_bytes());
        let hash = blake3::keyed_hash(&self.0, &out[..Datagram::BYTES]);
        out[Datagram::BYTES..].copy_from_slice(&hash.as_bytes()[..SEAL]);
        out
    }

    /// The datagram, if this key has sealed it. What is no datagram costs no hash.
    pub(crate) fn open(&self, bytes: &[u8]) -> Result<Datagram, Unopened> {
        let parts = bytes.split_at_checked(Datagram::BYTES);
        let (body, seal) = parts.ok_or(Unopened::NoDatagram)?;
        let datagram = Datagram::from_bytes(body).ok_or(Unopened::NoDatagram)?;
        let hash = blake3::keyed_hash(&self.0, body);
        let expected: &[u8] = &hash.as_bytes()[..SEAL];
        // Compared without telling by its duration where the difference is.
        let same = seal.len() == SEAL
            && seal
                .iter()
                .zip(expected)
                .fold(0, |sum, (a, b)| sum | (a ^ b))
                == 0;
        same.then_some(datagram).ok_or(Unopened::OtherKey)
    }
}

/// What came that this key has not sealed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Unopened {
    /// Not even a datagram.
    NoDatagram,
    /// One of another run, or of nobody who has a key.
    OtherKey,
}

/// The bytes that a key file says: 64 hexadecimal digits.
pub fn parse_key(text: &str) -> Option<[u8; 32]> {
    let text = text.trim();
    if text.len() != 64 || !text.bytes().all(|byte| byte.is_ascii_hexdigit()) {
        return None;
    }
    let mut bytes = [0; 32];
    for (at, byte) in bytes.iter_mut().enumerate() {
        *byte = u8::from_str_radix(text.get(2 * at..2 * at + 2)?, 16).ok()?;
    }
    Some(bytes)
}

impl core::fmt::Debug for Key {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str("Key(..)")
    }
}

const SEAL: usize = 16;

/// Bytes of a datagram with its seal.
pub(crate) const SEALED: usize = Datagram::BYTES + SEAL;
