//! The key of a run, and what it does to datagrams: seal them, or encrypt them.
//!
//! Sealed is what nobody else can have made: keyed BLAKE3 over header and body. Encrypted is what
//! nobody else can read either: ChaCha20 and Poly1305 (RFC 8439), the header in clear and sealed
//! with it. Each life of an engine encrypts to each other engine with a key of its own, which is
//! derived of the run's, and the number of the datagram is the nonce: no two datagrams have both
//! alike, as long as an engine's epoch grows with each start.

use chacha20poly1305::aead::AeadInOut;
use chacha20poly1305::{ChaCha20Poly1305, KeyInit};

use crate::datagram::Header;

/// The key of a run: all its engines have it, nobody else.
#[derive(Clone)]
pub struct Key {
    bytes: [u8; 32],
    encrypts: bool,
}

/// Bytes of the seal.
pub(crate) const SEAL: usize = 16;

impl Key {
    /// From bytes that were drawn for this run. Seals.
    pub fn new(bytes: [u8; 32]) -> Self {
        let encrypts = false;
        Self { bytes, encrypts }
    }

    /// From bytes that were drawn for this run. Encrypts, and believes nothing else.
    pub fn encrypting(bytes: [u8; 32]) -> Self {
        let encrypts = true;
        Self { bytes, encrypts }
    }

    pub(crate) fn encrypts(&self) -> bool {
        self.encrypts
    }

    /// Encrypts `body` where that is agreed on; gives back the seal.
    pub(crate) fn close(&self, header: &Header, head: &[u8], body: &mut [u8]) -> [u8; SEAL] {
        if !self.encrypts {
            return self.seal(head, body);
        }
        let (cipher, nonce) = self.cipher(header);
        let sealed = cipher.encrypt_inout_detached(&nonce.into(), head, body.into());
        // It has 256 GiB of room, and a datagram 64 KiB.
        sealed.expect("a datagram is short enough").into()
    }

    /// The body, of an encrypted one in `plain`; `None` when the seal is false.
    pub(crate) fn open<'a>(
        &self,
        header: &Header,
        (head, body): (&[u8], &'a [u8]),
        seal: &[u8; SEAL],
        plain: &'a mut Vec<u8>,
    ) -> Option<&'a [u8]> {
        if !self.encrypts {
            return equal(&self.seal(head, body), seal).then_some(body);
        }
        let (cipher, nonce) = self.cipher(header);
        plain.clear();
        plain.extend_from_slice(body);
        let buffer = (&mut plain[..]).into();
        let opened = cipher.decrypt_inout_detached(&nonce.into(), head, buffer, &(*seal).into());
        opened.ok().map(|()| &plain[..])
    }

    fn seal(&self, head: &[u8], body: &[u8]) -> [u8; SEAL] {
        let mut hasher = blake3::Hasher::new_keyed(&self.bytes);
        hasher.update(head);
        hasher.update(body);
        let hash = hasher.finalize();
        let (seal, _) = hash.as_bytes().split_first_chunk().expect("32 bytes");
        *seal
    }

    /// What encrypts this datagram: that of a life of its sender, for its receiver.
    fn cipher(&self, header: &Header) -> (ChaCha20Poly1305, [u8; 12]) {
        let mut hasher = blake3::Hasher::new_keyed(&self.bytes);
        hasher.update(b"timeloom peering: encrypts");
        hasher.update(&header.from.to_le_bytes());
        hasher.update(&header.to.to_le_bytes());
        hasher.update(&header.from_epoch.to_le_bytes());
        let key = *hasher.finalize().as_bytes();
        let mut nonce = [0; 12];
        nonce[4..].copy_from_slice(&header.number.to_le_bytes());
        (ChaCha20Poly1305::new(&key.into()), nonce)
    }
}

impl core::fmt::Debug for Key {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str("Key(..)")
    }
}

/// Compares without telling by its duration where the difference is.
fn equal(a: &[u8], b: &[u8]) -> bool {
    a.len() == b.len() && a.iter().zip(b).fold(0, |sum, (a, b)| sum | (a ^ b)) == 0
}
