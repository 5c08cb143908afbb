//! A folder of the run directory that belongs to a program of another user, who may write
//! nowhere else in it. Nothing in it is ever read by us.

use std::fs;
use std::os::fd::{AsRawFd, OwnedFd};
use std::path::PathBuf;

use rustix::fs::{AtFlags, Gid, Mode, Uid};
use rustix::io::Errno;

use crate::ResultsError;
use crate::tree::Tree;

/// All of them.
pub(crate) const FILES: &str = "files";

/// Makes `files/NAME`, which only this user may enter. `name` is one component.
pub(crate) fn make(
    tree: &Tree,
    name: &str,
    user: u32,
    group: u32,
) -> Result<PathBuf, ResultsError> {
    tree.make_folder(FILES)?;
    let all = tree.folder(FILES)?;
    let path = tree.path_of(FILES).join(name);
    let failed = |error: Errno| ResultsError::io(&path)(error.into());
    rustix::fs::mkdirat(&all, name, Mode::from_raw_mode(0o700)).map_err(failed)?;
    let (user, group) = (Uid::from_raw(user), Gid::from_raw(group));
    rustix::fs::chownat(
        &all,
        name,
        Some(user),
        Some(group),
        AtFlags::SYMLINK_NOFOLLOW,
    )
    .map_err(failed)?;
    Ok(path)
}

/// Removes all that programs have put there.
pub(crate) fn remove_all(tree: &Tree) -> Result<(), ResultsError> {
    if !tree.has(FILES) {
        return Ok(());
    }
    // Whether it is what it looks like.
    tree.make_folder(FILES)?;
    let all: OwnedFd = tree.folder(FILES)?;
    for (name, _) in tree.entries(FILES)? {
        let path = tree.path_of(FILES).join(&name);
        // From the descriptor, and following no link on the way down: so does the standard
        // library.
        let there = PathBuf::from(format!("/proc/self/fd/{}", all.as_raw_fd())).join(&name);
        let is_folder = fs::symlink_metadata(&there).is_ok_and(|it| it.is_dir());
        let removed = match is_folder {
            true => fs::remove_dir_all(&there),
            false => fs::remove_file(&there),
        };
        removed.map_err(ResultsError::io(&path))?;
    }
    Ok(())
}
