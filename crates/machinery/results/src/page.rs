//! Pages that are written outside of run directories, at a path that the user gives or by default.

use std::fs::File;
use std::io::{self, Write};
use std::os::fd::AsFd;
use std::path::Path;

use rustix::fs::{AtFlags, FileType, Mode, OFlags};
use rustix::io::Errno;

use crate::ResultsError;

/// Writes a page at `path`, either completely or not at all, as a new file or in place of a regular
/// file. A symbolic link of that name is not followed, since the directory may come from another
/// user. Paths below `/dev` are opened and written directly, for `--output /dev/stdout`.
///
/// # Errors
/// Returns the system's error, or an error if `path` is not a regular file.
pub fn write_page(path: &Path, text: &str) -> Result<(), ResultsError> {
    if path.starts_with("/dev") {
        let written = File::options().write(true).open(path);
        let written = written.and_then(|mut file| file.write_all(text.as_bytes()));
        return written.map_err(ResultsError::io(path));
    }
    let failed = |error: Errno| ResultsError::io(path)(error.into());
    let Some(name) = path.file_name() else {
        return Err(ResultsError::malformed(path, "it does not name a file"));
    };
    let parent = path.parent().filter(|it| !it.as_os_str().is_empty());
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let folder = rustix::fs::open(parent.unwrap_or(Path::new(".")), flags, Mode::empty());
    let folder = folder.map_err(failed)?;
    let refused = |what: &str| {
        let reason = format!("it is {what}; remove it, or name another file by --output");
        ResultsError::malformed(path, reason)
    };
    match rustix::fs::statat(&folder, name, AtFlags::SYMLINK_NOFOLLOW) {
        Err(Errno::NOENT) => {}
        Err(error) => return Err(failed(error)),
        Ok(found) => match FileType::from_raw_mode(found.st_mode) {
            FileType::RegularFile => {}
            FileType::Symlink => return Err(refused("a symbolic link, which is not followed")),
            FileType::Directory => return Err(refused("a directory")),
            _ => return Err(refused("a FIFO, a socket or a device")),
        },
    }
    let (mut file, partial) = new_file(&folder).map_err(failed)?;
    let written = file.write_all(text.as_bytes()).and_then(|()| {
        rustix::fs::renameat(&folder, &partial, &folder, name).map_err(io::Error::from)
    });
    written.map_err(|error| {
        let _ = rustix::fs::unlinkat(&folder, &partial, AtFlags::empty());
        ResultsError::io(path)(error)
    })
}

/// Creates a file under an unused name in `folder`, and returns it with the name.
fn new_file(folder: impl AsFd) -> Result<(File, String), Errno> {
    let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let mut number = 0;
    loop {
        let name = format!(".timeloom-{}-{number}.partial", std::process::id());
        match rustix::fs::openat(&folder, &name, flags, Mode::from_raw_mode(0o644)) {
            Err(Errno::EXIST) if number < MOST_NAMES => number += 1,
            other => return Ok((other?.into(), name)),
        }
    }
}

const MOST_NAMES: u32 = 1000;
