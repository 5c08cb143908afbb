//! Search for programs on the PATH.

use std::path::PathBuf;

/// Returns the first file of this name in a directory of the PATH; `None` if there is none.
pub(crate) fn on_path(program: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path)
        .map(|directory| directory.join(program))
        .find(|file| file.is_file())
}
