//! Secret that a run shares with its agents, and the keys derived from it.

use std::path::{Path, PathBuf};

use timeloom_bus::BusKey;
use timeloom_emulation::TunnelKey;
use timeloom_sys::seal::{SealKey, parse_key};
use timeloom_sys::secret::{self, SecretError, SecretFault};

/// Key of the agents: a peer that has it can run programs on them.
#[derive(Clone, Debug)]
pub struct Secret(SealKey);

impl Secret {
    /// Parses 64 hexadecimal digits, as in a key file.
    pub fn from_hex(text: &str) -> Option<Self> {
        let bytes = parse_key(text)?;
        Some(Self(SealKey::derive("timeloom agents 1", &bytes)))
    }

    /// Derives the keys of the run with the random number `nonce`: the keys of its pause bus, of
    /// its tunnels, and of its engines.
    pub(super) fn of_run(&self, nonce: &[u8; 32]) -> (BusKey, TunnelKey, [u8; 32]) {
        let run = self.0.derived(&[nonce]);
        let engines = SealKey::derive("timeloom engines 1", run.bytes());
        let (bus, tunnels) = (BusKey::new(run.bytes()), TunnelKey::new(run.bytes()));
        (bus, tunnels, *engines.bytes())
    }

    /// Derives the secret of the streams between the agents of the run with the random number
    /// `nonce`.
    pub(super) fn of_streams(&self, nonce: &[u8; 32]) -> Self {
        let run = self.0.derived(&[nonce]);
        Self(SealKey::derive("timeloom turns 1", run.bytes()))
    }

    /// Derives the key of one direction of one conversation.
    pub(crate) fn of_channel(&self, nonces: [&[u8; 32]; 2], direction: &str) -> SealKey {
        self.0
            .derived(&[nonces[0], nonces[1], direction.as_bytes()])
    }
}

/// Error in a key file.
#[derive(Debug, thiserror::Error)]
pub enum KeyFileError {
    /// The file cannot be read or its permissions are too open.
    #[error("{0}{more}", more = worse(.0))]
    File(#[from] SecretError),
    /// The content is not a key.
    #[error(
        "{}: a key is 64 hexadecimal digits, as from `openssl rand -hex 32`",
        .0.display()
    )]
    NoKey(PathBuf),
}

/// Returns a sentence about the consequence of the error for an agent, or nothing.
fn worse(error: &SecretError) -> &'static str {
    match error.fault {
        SecretFault::Exposed(_) => " (its holder can run programs here)",
        _ => "",
    }
}

/// Reads a key file; `read` parses its content.
///
/// # Errors
/// Returns an error if other users can access the file, or if `read` returns `None`.
pub fn read_key<T>(path: &Path, read: impl FnOnce(&str) -> Option<T>) -> Result<T, KeyFileError> {
    let bytes = secret::read(path, MOST_KEY_BYTES)?;
    let key = str::from_utf8(&bytes).ok().and_then(read);
    key.ok_or_else(|| KeyFileError::NoKey(path.to_owned()))
}

/// Size limit of a key file, in bytes.
const MOST_KEY_BYTES: u64 = 1 << 12;

#[cfg(test)]
mod tests {
    use std::fs::Permissions;
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn a_key_is_of_digits_in_a_file_of_its_owner_s_alone() {
        let place = tempfile::tempdir().expect("there is room");
        let file = place.path().join("key");
        let write = |text: &str, mode| {
            std::fs::write(&file, text).expect("there is room");
            std::fs::set_permissions(&file, Permissions::from_mode(mode)).expect("it is ours");
        };
        let digits = "07".repeat(32);
        write(&digits, 0o600);
        read_key(&file, Secret::from_hex).expect("a key");
        write(&digits[1..], 0o600);
        let refused = read_key(&file, Secret::from_hex).expect_err("it is too short");
        assert!(matches!(refused, KeyFileError::NoKey(_)), "{refused}");
        write(&digits, 0o640);
        let refused = read_key(&file, Secret::from_hex).expect_err("others may read it");
        assert!(matches!(refused, KeyFileError::File(_)), "{refused}");
        assert!(
            refused.to_string().contains("can run programs"),
            "{refused}"
        );
    }
}
