//! Folder of the run directory for a program of another user, who may not write elsewhere in the
//! directory. Timeloom reads nothing in that folder.

use std::path::PathBuf;

use rustix::fs::{AtFlags, Gid, Mode, Uid};
use rustix::io::Errno;

use crate::ResultsError;
use crate::tree::Tree;

/// Name of the folder that contains the folders of all such programs.
pub(crate) const FILES: &str = "files";

/// Creates `files/NAME`, which only the user `user` may enter. `name` is a single path component.
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
