//! Directories that are private to one user's programs.
//!
//! Sockets and pages of sessions and timelines have predictable names. They are therefore in a
//! directory that no other user can write to. Both the program that creates the directory and those
//! that look for something in it check this, before they open, connect to, remove or replace
//! anything there.

use std::fmt;
use std::fs;
use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};

/// Returns the directory for this user's programs. For root it is `system`. For other users it is
/// `name` in `XDG_RUNTIME_DIR`, or, if that is not set, `name` with the user number in the
/// directory for temporary files.
pub fn meeting_place(system: &Path, name: &str) -> PathBuf {
    let user = rustix::process::geteuid();
    if user.is_root() {
        return system.to_owned();
    }
    match std::env::var_os("XDG_RUNTIME_DIR") {
        Some(directory) => PathBuf::from(directory).join(name),
        None => std::env::temp_dir().join(format!("{name}-{}", user.as_raw())),
    }
}

/// Creates a directory with `mode`, and its parents, unless it exists. An existing directory is
/// checked by [`check`], so that the directory is private in both cases.
///
/// # Errors
/// Fails if an existing directory is not private ([`check`]), or if the system refuses.
pub fn make(path: &Path, mode: u32) -> Result<(), UnsafeDirectory> {
    let system = |error| UnsafeDirectory::new(path, DirectoryFault::System(error));
    if let Some(parent) = path.parent() {
        fs::create_dir_all(parent).map_err(system)?;
    }
    match fs::DirBuilder::new().mode(mode).create(path) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => Err(system(error)),
        _ => check(path),
    }
}

/// Checks that no user except this one and root can create or replace files in a directory, or
/// could have created the directory.
///
/// # Errors
/// Returns [`UnsafeDirectory`], which states the fix. [`UnsafeDirectory::is_absent`] is true if
/// there is no such directory.
pub fn check(path: &Path) -> Result<(), UnsafeDirectory> {
    let metadata = fs::symlink_metadata(path)
        .map_err(|error| UnsafeDirectory::new(path, DirectoryFault::System(error)))?;
    let user = rustix::process::geteuid().as_raw();
    let why = if !metadata.is_dir() {
        DirectoryFault::NoDirectory
    } else if metadata.uid() != user && metadata.uid() != 0 {
        DirectoryFault::Owner(metadata.uid())
    } else if metadata.mode() & 0o022 != 0 {
        DirectoryFault::Writable
    } else {
        return Ok(());
    };
    Err(UnsafeDirectory::new(path, why))
}

/// Reason why a directory is not safe to use.
#[derive(Debug)]
pub struct UnsafeDirectory {
    path: PathBuf,
    why: DirectoryFault,
}

#[derive(Debug)]
enum DirectoryFault {
    System(io::Error),
    NoDirectory,
    Owner(u32),
    Writable,
}

impl UnsafeDirectory {
    fn new(path: &Path, why: DirectoryFault) -> Self {
        let path = path.to_owned();
        Self { path, why }
    }

    /// Returns true if the directory does not exist.
    pub fn is_absent(&self) -> bool {
        matches!(&self.why, DirectoryFault::System(error) if error.kind() == io::ErrorKind::NotFound)
    }
}

impl fmt::Display for UnsafeDirectory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let path = self.path.display();
        match &self.why {
            DirectoryFault::System(error) => write!(f, "{path}: {error}"),
            DirectoryFault::NoDirectory => write!(
                f,
                "{path} is not a directory (links are not followed here); remove it, or set \
                 XDG_RUNTIME_DIR to a directory of yours"
            ),
            DirectoryFault::Owner(user) => write!(
                f,
                "{path} belongs to another user (uid {user}), who could pose as a program of \
                 yours; set XDG_RUNTIME_DIR to a directory of yours"
            ),
            DirectoryFault::Writable => write!(
                f,
                "others may write in {path}, and could pose as a program of yours; look at what \
                 is in it, then `chmod go-w {path}`"
            ),
        }
    }
}

impl std::error::Error for UnsafeDirectory {}

impl From<UnsafeDirectory> for io::Error {
    fn from(error: UnsafeDirectory) -> Self {
        let kind = match &error.why {
            DirectoryFault::System(error) => error.kind(),
            _ => io::ErrorKind::PermissionDenied,
        };
        Self::new(kind, error)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::{PermissionsExt, chown, symlink};

    #[test]
    fn directories_are_for_one_user_and_may_be_made_again() {
        let scratch = tempfile::tempdir().unwrap();
        let path = scratch.path().join("a/b");
        assert!(check(&path).unwrap_err().is_absent());
        for _ in 0..2 {
            make(&path, 0o700).unwrap();
        }
        let mode = fs::metadata(&path).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o700);
    }

    #[test]
    fn a_link_is_not_followed() {
        let scratch = tempfile::tempdir().unwrap();
        let (target, link) = (scratch.path().join("target"), scratch.path().join("link"));
        make(&target, 0o700).unwrap();
        symlink(&target, &link).unwrap();
        let refused = make(&link, 0o700).unwrap_err().to_string();
        assert!(refused.contains("is not a directory"), "{refused}");
    }

    #[test]
    fn one_that_others_may_write_is_refused() {
        let scratch = tempfile::tempdir().unwrap();
        for mode in [0o777, 0o720, 0o702, 0o1777] {
            fs::set_permissions(scratch.path(), fs::Permissions::from_mode(mode)).unwrap();
            let refused = make(scratch.path(), 0o700).unwrap_err().to_string();
            assert!(refused.contains("chmod go-w"), "{mode:o}: {refused}");
        }
    }

    #[test]
    fn one_of_another_user_is_refused() {
        let scratch = tempfile::tempdir().unwrap();
        if !rustix::process::geteuid().is_root() {
            let roots = check(Path::new("/usr"));
            assert!(roots.is_ok(), "every user trusts root: {roots:?}");
            return;
        }
        chown(scratch.path(), Some(65534), None).unwrap();
        let refused = make(scratch.path(), 0o700).unwrap_err().to_string();
        assert!(refused.contains("uid 65534"), "{refused}");
    }
}
