//! Secret that programs or daemons with a common timeline share, and the tags that it gives.

use std::fmt;
use std::path::{Path, PathBuf};

use hmac::{Hmac, Mac};
use sha2::Sha256;
use timeloom_sys::secret::{self, SecretError};

/// Minimum length of a key in bytes.
pub const LEAST_KEY_BYTES: usize = 16;

/// Size limit of a key file, in bytes.
const MOST_KEY_BYTES: u64 = 1 << 16;

/// Length of a tag in bytes.
pub const TAG_BYTES: usize = 32;

/// Error for a key that is too short: a search of all keys could find it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a key must have at least {least} bytes, not {0}", least = LEAST_KEY_BYTES)]
pub struct ShortKey(
    /// Length of the key in bytes.
    pub usize,
);

/// Reason why the key in a file is not used.
#[derive(Debug, thiserror::Error)]
pub enum SharedKeyError {
    /// The file is missing or not trustworthy.
    #[error(transparent)]
    File(#[from] SecretError),
    /// The key is too short.
    #[error("{path}: {error}", path = path.display())]
    Short {
        /// Path of the file.
        path: PathBuf,
        /// Length of the key.
        error: ShortKey,
    },
}

/// Key of HMAC-SHA256 (RFC 2104). It is not shown by `Debug`.
#[derive(Clone)]
pub struct SharedKey(Hmac<Sha256>);

impl SharedKey {
    /// Creates a key of these bytes.
    ///
    /// # Errors
    /// Fails if there are fewer than [`LEAST_KEY_BYTES`].
    pub fn new(bytes: &[u8]) -> Result<Self, ShortKey> {
        if bytes.len() < LEAST_KEY_BYTES {
            return Err(ShortKey(bytes.len()));
        }
        let keyed = <Hmac<Sha256> as Mac>::new_from_slice(bytes);
        keyed.map(Self).map_err(|_| ShortKey(bytes.len()))
    }

    /// Reads the key that is the content of a file.
    ///
    /// # Errors
    /// Fails if the file cannot be read or is accessible to other users, or if the key is short.
    pub fn read(path: &Path) -> Result<Self, SharedKeyError> {
        let bytes = secret::read(path, MOST_KEY_BYTES)?;
        Self::new(&bytes).map_err(|error| SharedKeyError::Short {
            path: path.to_owned(),
            error,
        })
    }

    /// Returns the tag of the concatenation of `parts`.
    pub fn tag(&self, parts: &[&[u8]]) -> [u8; TAG_BYTES] {
        self.keyed(parts).finalize().into_bytes().into()
    }

    /// Returns true if `tag` is that of the concatenation of `parts`. The comparison takes constant
    /// time, so that its duration does not reveal the position of a difference.
    pub fn verifies(&self, parts: &[&[u8]], tag: &[u8]) -> bool {
        self.keyed(parts).verify_slice(tag).is_ok()
    }

    fn keyed(&self, parts: &[&[u8]]) -> Hmac<Sha256> {
        let mut keyed = self.0.clone();
        for part in parts {
            keyed.update(part);
        }
        keyed
    }
}

impl fmt::Debug for SharedKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SharedKey(..)")
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn the_tags_are_the_published_ones() {
        // RFC 4231, test cases 1 and 6 (a key longer than a block).
        let short = SharedKey::new(&[0x0b; 20]).expect("a key");
        let tag = short.tag(&[b"Hi ", b"There"]);
        assert_eq!(tag[..4], [0xb0, 0x34, 0x4c, 0x61]);
        assert!(short.verifies(&[b"Hi There"], &tag) && !short.verifies(&[b"Hi there"], &tag));
        let long = SharedKey::new(&[0xaa; 131]).expect("a key");
        let message = b"Test Using Larger Than Block-Size Key - Hash Key First";
        assert_eq!(long.tag(&[message])[..4], [0x60, 0xe4, 0x31, 0x59]);
    }

    #[test]
    fn a_key_has_sixteen_bytes_and_is_accessible_to_its_owner_only() {
        let place = tempfile::tempdir().expect("a directory");
        let path = place.path().join("key");
        let write = |length, mode| {
            std::fs::write(&path, vec![7; length]).expect("a key");
            let permissions = std::fs::Permissions::from_mode(mode);
            std::fs::set_permissions(&path, permissions).expect("our own file");
        };
        write(16, 0o600);
        SharedKey::read(&path).expect("it is one");
        write(15, 0o600);
        let short = SharedKey::read(&path);
        assert!(matches!(short, Err(SharedKeyError::Short { .. })));
        write(16, 0o640);
        let exposed = SharedKey::read(&path);
        assert!(matches!(exposed, Err(SharedKeyError::File(_))));
    }
}
