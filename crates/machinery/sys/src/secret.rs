//! Files with a secret that only their owner may read or write. A secret that other users know
//! proves nothing, and one that they can change proves even less.

use std::fmt;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use rustix::process::geteuid;

use crate::plain::{at_most, open_plain};

/// Reason why a secret's file is not used.
#[derive(Debug)]
pub struct SecretError {
    path: PathBuf,
    /// Fault of the file.
    pub fault: SecretFault,
}

/// Fault of a file that should hold a secret.
#[derive(Debug)]
pub enum SecretFault {
    /// The file is unreadable, not regular, or too long.
    Unreadable(io::Error),
    /// Other users may read or write the file; contains its permission bits.
    Exposed(u32),
    /// The file's owner, with this user number, is neither root nor this process's user.
    Foreign(u32),
}

impl fmt::Display for SecretError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let shown = self.path.display();
        match &self.fault {
            SecretFault::Unreadable(error) => write!(f, "{shown}: {error}"),
            SecretFault::Exposed(mode) => write!(
                f,
                "{shown} has mode {mode:03o}: others may read or write this secret; `chmod 600 \
                 {shown}`, and make a new key if another user may have read it"
            ),
            SecretFault::Foreign(owner) => write!(
                f,
                "{shown} belongs to user {owner}, who could change it; `chown` it to the user that \
                 reads it here"
            ),
        }
    }
}

impl std::error::Error for SecretError {}

/// Returns the content of a secret's file. The file must have at most `most_bytes`, and its owner
/// must be root or this process's user.
///
/// # Errors
/// Returns the path of the file and its [`SecretFault`].
pub fn read(path: &Path, most_bytes: u64) -> Result<Vec<u8>, SecretError> {
    let failed = |fault| SecretError {
        path: path.to_owned(),
        fault,
    };
    let unreadable = |error| failed(SecretFault::Unreadable(error));
    // The file is opened once, then checked and read, so a change of its name has no effect.
    let (file, metadata) = open_plain(path).map_err(unreadable)?;
    let (mode, owner) = (metadata.mode() & 0o777, metadata.uid());
    if mode & 0o077 != 0 {
        return Err(failed(SecretFault::Exposed(mode)));
    }
    if owner != geteuid().as_raw() && owner != 0 {
        return Err(failed(SecretFault::Foreign(owner)));
    }
    at_most(file, most_bytes).map_err(unreadable)
}

#[cfg(test)]
mod tests {
    use std::fs::Permissions;
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn a_secret_that_others_may_read_or_write_is_refused_with_the_fix() {
        let place = tempfile::tempdir().expect("there is room");
        let path = place.path().join("key");
        std::fs::write(&path, "0123").expect("there is room");
        for mode in [0o644, 0o640, 0o604, 0o620, 0o602, 0o660] {
            std::fs::set_permissions(&path, Permissions::from_mode(mode)).expect("it is ours");
            let refused = read(&path, 4).expect_err("others may read or write it");
            assert!(matches!(refused.fault, SecretFault::Exposed(of) if of == mode));
            let (fix, said) = (format!("chmod 600 {}", path.display()), refused.to_string());
            assert!(
                said.contains(&fix) && said.contains(&format!("{mode:03o}")),
                "{said}"
            );
        }
        for mode in [0o600, 0o400] {
            std::fs::set_permissions(&path, Permissions::from_mode(mode)).expect("it is ours");
            assert_eq!(read(&path, 4).expect("the owner's alone"), b"0123");
        }
        assert!(read(&path, 3).is_err(), "it is longer");
        let link = place.path().join("link");
        std::os::unix::fs::symlink("/dev/zero", &link).expect("there is room");
        for other in [&link, &place.path().to_owned()] {
            let refused = read(other, 4).expect_err("it is no file");
            assert!(
                refused.to_string().contains("not a regular file"),
                "{refused}"
            );
        }
    }
}
