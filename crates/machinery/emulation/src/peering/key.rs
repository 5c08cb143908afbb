//! Key of a run, with which datagrams are sealed and encrypted.
//!
//! A seal (a tag of header and body) proves that a holder of the key made the datagram.
//! Encryption (ChaCha20 and Poly1305, RFC 8439) also hides the body; the header remains readable
//! but is authenticated. Each generation of an engine encrypts its datagrams to each other engine
//! with a key of its own, which is derived from the run's key. The datagram's number is the nonce.
//! No two datagrams have the same key and nonce, as long as an engine's epoch grows with each
//! start.

use chacha20poly1305::aead::AeadInOut;
use chacha20poly1305::{ChaCha20Poly1305, KeyInit};
use timeloom_sys::seal::{SealKey, TAG_BYTES};

use crate::peering::datagram::DatagramHeader;

/// Key of a run, which only the run's engines know.
#[derive(Clone, Debug)]
pub struct Key {
    seal: SealKey,
    encrypts: bool,
}

/// Length of the seal in bytes.
pub(crate) const SEAL: usize = TAG_BYTES;

impl Key {
    /// Creates a key that seals datagrams. `bytes` must be random and drawn for this run.
    pub fn new(bytes: [u8; 32]) -> Self {
        Self {
            seal: SealKey::new(bytes),
            encrypts: false,
        }
    }

    /// Creates a key that seals and encrypts datagrams, and that rejects unencrypted ones. `bytes`
    /// must be random and drawn for this run.
    pub fn encrypting(bytes: [u8; 32]) -> Self {
        Self {
            encrypts: true,
            ..Self::new(bytes)
        }
    }

    pub(crate) fn encrypts(&self) -> bool {
        self.encrypts
    }

    /// Encrypts `body` in place if the key encrypts; returns the seal.
    pub(crate) fn close(
        &self,
        header: &DatagramHeader,
        head: &[u8],
        body: &mut [u8],
    ) -> [u8; SEAL] {
        if !self.encrypts {
            return self.seal.tag(&[head, body]);
        }
        let (cipher, nonce) = self.cipher(header);
        let sealed = cipher.encrypt_inout_detached(&nonce.into(), head, body.into());
        // The cipher's limit is 256 GiB, and a datagram has at most 64 KiB.
        sealed.expect("a datagram is short enough").into()
    }

    /// Checks the seal and returns the body, decrypted into `plain` if it was encrypted; `None` if
    /// the seal is invalid.
    pub(crate) fn open<'a>(
        &self,
        header: &DatagramHeader,
        (head, body): (&[u8], &'a [u8]),
        seal: &[u8; SEAL],
        plain: &'a mut Vec<u8>,
    ) -> Option<&'a [u8]> {
        if !self.encrypts {
            return self.seal.verifies(&[head, body], seal).then_some(body);
        }
        let (cipher, nonce) = self.cipher(header);
        plain.clear();
        plain.extend_from_slice(body);
        let buffer = (&mut plain[..]).into();
        let opened = cipher.decrypt_inout_detached(&nonce.into(), head, buffer, &(*seal).into());
        opened.ok().map(|()| &plain[..])
    }

    /// Returns the cipher and the nonce for this datagram. The cipher's key depends on the sender,
    /// the sender's epoch and the receiver.
    fn cipher(&self, header: &DatagramHeader) -> (ChaCha20Poly1305, [u8; 12]) {
        let key = self.seal.derived(&[
            b"timeloom peering: encrypts",
            &header.from.to_le_bytes(),
            &header.to.to_le_bytes(),
            &header.from_epoch.to_le_bytes(),
        ]);
        let mut nonce = [0; 12];
        nonce[4..].copy_from_slice(&header.number.to_le_bytes());
        (ChaCha20Poly1305::new(&(*key.bytes()).into()), nonce)
    }
}
