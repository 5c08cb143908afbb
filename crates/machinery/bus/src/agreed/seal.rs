//! Sealed datagrams. The seal is the first 16 bytes of keyed BLAKE3 over the datagram.

use data_encoding::HEXLOWER_PERMISSIVE;
use subtle::ConstantTimeEq as _;
use timeloom_agreement::Datagram;

/// Key of a run, which all hosts of the run share and keep secret from others.
#[derive(Clone)]
pub struct BusKey([u8; 32]);

impl BusKey {
    /// Derives a key from random bytes that were drawn for this run.
    pub fn new(bytes: &[u8; 32]) -> Self {
        // The same bytes may be used to derive keys for other purposes, with other context strings.
        Self(blake3::derive_key("timeloom pause bus 1", bytes))
    }

    /// Parses 64 hexadecimal digits, the content of a key file; `None` if the text is something
    /// else.
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

    /// Checks the seal and decodes the datagram. The hash is computed only if the bytes have the
    /// form of a datagram.
    pub(crate) fn open(&self, bytes: &[u8]) -> Result<Datagram, Unopened> {
        let parts = bytes.split_at_checked(Datagram::BYTES);
        let (body, seal) = parts.ok_or(Unopened::NoDatagram)?;
        let datagram = Datagram::from_bytes(body).ok_or(Unopened::NoDatagram)?;
        let hash = blake3::keyed_hash(&self.0, body);
        // The comparison takes constant time, which does not reveal the position of a difference.
        let same = seal.ct_eq(&hash.as_bytes()[..SEAL]);
        bool::from(same)
            .then_some(datagram)
            .ok_or(Unopened::OtherKey)
    }
}

/// Reason why received bytes are not a datagram with a valid seal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Unopened {
    /// The bytes do not have the form of a datagram.
    NoDatagram,
    /// The seal was made with another key, or by a sender without a key.
    OtherKey,
}

/// Parses the content of a key file, which is 64 hexadecimal digits; `None` if the text is
/// something else.
pub fn parse_key(text: &str) -> Option<[u8; 32]> {
    let bytes = HEXLOWER_PERMISSIVE.decode(text.trim().as_bytes());
    bytes.ok()?.try_into().ok()
}

impl core::fmt::Debug for BusKey {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str("Key(..)")
    }
}

const SEAL: usize = 16;

/// Length of a datagram with its seal, in bytes.
pub(crate) const SEALED: usize = Datagram::BYTES + SEAL;
