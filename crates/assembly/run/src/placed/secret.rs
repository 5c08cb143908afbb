//! What a run and its agents share, and what is derived of it.

use std::fs::File;
use std::io::{self, Read};

use timeloom_bus::{Key, parse_key};
use timeloom_portal::TunnelKey;

/// The agents' key: who has it can run programs on them.
#[derive(Clone)]
pub struct Secret([u8; 32]);

impl Secret {
    /// From 64 hexadecimal digits, as in a key file.
    pub fn from_hex(text: &str) -> Option<Self> {
        let bytes = parse_key(text)?;
        Some(Self(blake3::derive_key("timeloom agents 1", &bytes)))
    }

    /// The keys of one run, which its number `nonce` tells from all others.
    pub(super) fn of_run(&self, nonce: &[u8; 32]) -> (Key, TunnelKey) {
        let run = blake3::keyed_hash(&self.0, nonce);
        (Key::new(run.as_bytes()), TunnelKey::new(run.as_bytes()))
    }

    /// The key of one direction of one conversation.
    pub(super) fn of_channel(&self, nonces: [&[u8; 32]; 2], direction: &str) -> [u8; 32] {
        let mut hasher = blake3::Hasher::new_keyed(&self.0);
        for nonce in nonces {
            hasher.update(nonce);
        }
        hasher.update(direction.as_bytes());
        *hasher.finalize().as_bytes()
    }
}

impl std::fmt::Debug for Secret {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Secret(..)")
    }
}

/// Bytes that nobody has drawn before.
pub(super) fn draw() -> io::Result<[u8; 32]> {
    let mut bytes = [0; 32];
    File::open("/dev/urandom")?.read_exact(&mut bytes)?;
    Ok(bytes)
}

/// Whether they are the same, without telling by its duration where they differ.
pub(super) fn same(a: &[u8], b: &[u8]) -> bool {
    a.len() == b.len() && a.iter().zip(b).fold(0, |sum, (a, b)| sum | (a ^ b)) == 0
}
