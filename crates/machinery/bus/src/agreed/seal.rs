//! Datagrams with a tag of the run's key.

use timeloom_agreement::Datagram;
use timeloom_sys::seal::{SealKey, TAG_BYTES, parse_key};

/// Key of a run, which all hosts of the run share and keep secret from others.
#[derive(Clone, Debug)]
pub struct BusKey(SealKey);

impl BusKey {
    /// Derives a key from random bytes that were drawn for this run.
    pub fn new(bytes: &[u8; 32]) -> Self {
        Self(SealKey::derive("timeloom pause bus 1", bytes))
    }

    /// Parses 64 hexadecimal digits, the content of a key file; `None` if the text is something
    /// else.
    pub fn from_hex(text: &str) -> Option<Self> {
        parse_key(text).map(|bytes| Self::new(&bytes))
    }

    pub(crate) fn seal(&self, datagram: &Datagram) -> [u8; SEALED] {
        let mut out = [0; SEALED];
        out[..Datagram::BYTES].copy_from_slice(&datagram.to_bytes());
        let tag = self.0.tag(&[&out[..Datagram::BYTES]]);
        out[Datagram::BYTES..].copy_from_slice(&tag);
        out
    }

    /// Checks the seal and decodes the datagram. The hash is computed only if the bytes have the
    /// form of a datagram.
    pub(crate) fn open(&self, bytes: &[u8]) -> Result<Datagram, Unopened> {
        let parts = bytes.split_at_checked(Datagram::BYTES);
        let (body, seal) = parts.ok_or(Unopened::NoDatagram)?;
        let datagram = Datagram::from_bytes(body).ok_or(Unopened::NoDatagram)?;
        let is_ours = self.0.verifies(&[body], seal);
        is_ours.then_some(datagram).ok_or(Unopened::OtherKey)
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

/// Length of a datagram with its seal, in bytes.
pub(crate) const SEALED: usize = Datagram::BYTES + TAG_BYTES;
