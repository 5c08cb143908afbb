//! Files as seen by programs with another root directory, such as those of a container.
//!
//! Symbolic links are resolved within the root directory and never leave it, whatever a container
//! image contains. This module changes no files.

use std::fs::File;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use rustix::fs::{Mode, OFlags, ResolveFlags, openat2};

/// Search path for programs in a container whose environment has no `PATH`.
pub const PATH: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

/// Opens `path` as seen from the root directory `top`. The returned descriptor permits neither
/// reading nor writing (O_PATH).
///
/// # Errors
/// Fails as the kernel does, for example if there is no such file.
pub fn find(top: impl AsFd, path: &Path) -> io::Result<OwnedFd> {
    let flags = OFlags::PATH | OFlags::CLOEXEC;
    let resolve = ResolveFlags::IN_ROOT | ResolveFlags::NO_MAGICLINKS;
    Ok(openat2(top, path, flags, Mode::empty(), resolve)?)
}

/// Finds the file of a program as execvp(3) does: a name with a slash is a path relative to
/// `directory`; other names are searched for in the directories of `path`, separated by colons.
/// Returns `None` if there is no such executable file.
pub fn program(top: impl AsFd, name: &Path, directory: &Path, path: &str) -> Option<PathBuf> {
    let is_path = name.as_os_str().as_encoded_bytes().contains(&b'/');
    let candidates: Vec<PathBuf> = match is_path {
        true => vec![directory.join(name)],
        false => std::env::split_paths(path)
            .map(|entry| directory.join(entry).join(name))
            .collect(),
    };
    candidates.into_iter().find(|file| {
        find(top.as_fd(), file)
            .and_then(|found| File::from(found).metadata())
            .is_ok_and(|found| found.is_file() && found.permissions().mode() & 0o111 != 0)
    })
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn links_lead_to_where_they_would_inside_and_never_out() {
        let place = std::env::temp_dir().join(format!("timeloom-rooted-{}", std::process::id()));
        fs::create_dir_all(place.join("bin")).expect("there is room");
        fs::write(place.join("bin/tool"), "").expect("there is room");
        symlink("/bin/tool", place.join("bin/absolute")).expect("there is room");
        symlink("../../../../../../bin/sh", place.join("bin/out")).expect("there is room");
        let executable = fs::Permissions::from_mode(0o755);
        fs::set_permissions(place.join("bin/tool"), executable).expect("it is ours");

        let top = File::open(&place).expect("it is there");
        let found = |name: &str| program(&top, Path::new(name), Path::new("/"), PATH);
        assert_eq!(found("tool"), Some("/bin/tool".into()));
        assert_eq!(found("absolute"), Some("/bin/absolute".into()));
        assert_eq!(found("bin/tool"), Some("/bin/tool".into()));
        // This machine has such a file; the root directory of the test does not.
        assert!(Path::new("/bin/sh").exists());
        assert_eq!(found("out"), None);
        assert_eq!(found("sh"), None);
        fs::remove_dir_all(place).expect("it is ours");
    }
}
