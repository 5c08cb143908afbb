//! What a run and its agents share, and what is derived of it.

use std::fs::{File, OpenOptions};
use std::io::{self, Read};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::Path;

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

    /// The keys of one run, which its number `nonce` tells from all others: of its bus, its
    /// tunnels, and its engines.
    pub(super) fn of_run(&self, nonce: &[u8; 32]) -> (Key, TunnelKey, [u8; 32]) {
        let run = blake3::keyed_hash(&self.0, nonce);
        let run = run.as_bytes();
        let engines = blake3::derive_key("timeloom engines 1", run);
        (Key::new(run), TunnelKey::new(run), engines)
    }

    /// The key of one direction of one conversation.
    pub(crate) fn of_channel(&self, nonces: [&[u8; 32]; 2], direction: &str) -> [u8; 32] {
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

/// What is in a key file, which nobody but its owner may read or write: root, or who we are.
///
/// # Errors
/// In words with the fix: for another's file, one that others may read or write, and what is
/// no plain file.
pub fn read_key_file(path: &Path) -> Result<String, String> {
    let shown = path.display();
    let failed = |error: io::Error| format!("{shown}: {error}");
    // A pipe does not keep us waiting, and one file is looked at and read.
    let flags = rustix::fs::OFlags::NONBLOCK.bits() as i32;
    let mut options = OpenOptions::new();
    let file = options.read(true).custom_flags(flags).open(path);
    let file = file.map_err(failed)?;
    let metadata = file.metadata().map_err(failed)?;
    let (mode, owner) = (metadata.mode() & 0o777, metadata.uid());
    if !metadata.is_file() {
        return Err(format!("{shown}: it is not a plain file"));
    }
    if mode & 0o077 != 0 {
        return Err(format!(
            "{shown} has mode {mode:03o}: others may read or write this secret, and who has it \
             can run programs here; `chmod 600 {shown}`, and draw a new key if somebody may \
             have read it"
        ));
    }
    if owner != rustix::process::geteuid().as_raw() && owner != 0 {
        return Err(format!(
            "{shown} belongs to user {owner}, who could change it; `chown` it"
        ));
    }
    let mut text = String::new();
    let read = file.take(MOST_KEY_BYTES).read_to_string(&mut text);
    read.map_err(failed)?;
    Ok(text)
}

/// No key file is longer.
const MOST_KEY_BYTES: u64 = 1 << 12;

/// Bytes that nobody has drawn before.
pub(crate) fn draw() -> io::Result<[u8; 32]> {
    let mut bytes = [0; 32];
    File::open("/dev/urandom")?.read_exact(&mut bytes)?;
    Ok(bytes)
}

/// Whether they are the same, without telling by its duration where they differ.
pub(crate) fn same(a: &[u8], b: &[u8]) -> bool {
    a.len() == b.len() && a.iter().zip(b).fold(0, |sum, (a, b)| sum | (a ^ b)) == 0
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{PermissionsExt, symlink};

    use super::*;

    #[test]
    fn a_key_that_others_may_read_or_write_is_refused_with_the_fix() {
        let place = tempfile::tempdir().expect("there is room");
        let file = place.path().join("key");
        std::fs::write(&file, "0123").expect("there is room");
        for (mode, taken) in [(0o600, true), (0o400, true), (0o640, false), (0o602, false)] {
            let mode = std::fs::Permissions::from_mode(mode);
            std::fs::set_permissions(&file, mode.clone()).expect("it is ours");
            match read_key_file(&file) {
                Ok(text) => assert!(taken && text == "0123", "{mode:?}: {text}"),
                Err(why) => assert!(!taken && why.contains("chmod 600"), "{mode:?}: {why}"),
            }
        }
        let link = place.path().join("link");
        symlink("/dev/zero", &link).expect("there is room");
        let why = read_key_file(&link).expect_err("it never ends");
        assert!(why.contains("not a plain file"), "{why}");
    }
}
