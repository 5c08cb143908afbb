//! Access to the files of a run directory. Only this module opens, creates, replaces and removes
//! them.
//!
//! A directory may have been prepared by another user: unpacked, copied, or placed at the future
//! path of a run. Names are therefore looked up from a descriptor of the directory. No symbolic
//! link in the directory is ever followed, and existing files are never overwritten. Nothing is
//! written to a directory in which another user could create files at the same time. Only regular
//! files are opened, because a FIFO would block and opening a device has side effects.

use std::ffi::OsString;
use std::fs::{self, File};
use std::io::{self, Read as _, Write};
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustix::fs::{AtFlags, Dir, FileType, Mode, OFlags, ResolveFlags};
use rustix::io::Errno;

use crate::ResultsError;

/// Open run directory. Names of its files are `FILE` or `FOLDER/FILE`.
#[derive(Clone, Debug)]
pub(crate) struct Tree {
    path: PathBuf,
    root: Arc<OwnedFd>,
}

impl Tree {
    /// Creates a directory if it does not exist, and opens it for writing.
    pub(crate) fn make(path: &Path) -> Result<Self, ResultsError> {
        if let Some(parent) = path.parent() {
            fs::create_dir_all(parent).map_err(ResultsError::io(parent))?;
        }
        match fs::DirBuilder::new().mode(FOLDER_MODE).create(path) {
            Err(error) if error.kind() != io::ErrorKind::AlreadyExists => {
                return Err(ResultsError::io(path)(error));
            }
            _ => {}
        }
        let tree = Self::open(path)?;
        tree.check_own(&tree.root, path)?;
        Ok(tree)
    }

    /// Opens an existing directory.
    pub(crate) fn open(path: &Path) -> Result<Self, ResultsError> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let root = rustix::fs::open(path, flags, Mode::empty())
            .map_err(|error| ResultsError::io(path)(error.into()))?;
        Ok(Self {
            path: path.to_owned(),
            root: Arc::new(root),
        })
    }

    /// Opens a folder of this directory, as a tree of its own.
    pub(crate) fn subtree(&self, name: &str) -> Result<Self, ResultsError> {
        Ok(Self {
            root: Arc::new(self.folder(name)?),
            path: self.path_of(name),
        })
    }

    /// Returns the path of the directory, for messages and for programs that need it.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Returns the path of a file in the directory, for messages.
    pub(crate) fn path_of(&self, name: &str) -> PathBuf {
        self.path.join(name)
    }

    /// Returns the device and the number of the directory.
    pub(crate) fn identity(&self) -> Result<(u64, u64), ResultsError> {
        let stat = rustix::fs::fstat(&self.root)
            .map_err(|error| ResultsError::io(&self.path)(error.into()))?;
        Ok((stat.st_dev, stat.st_ino))
    }

    /// Returns true if the directory has an entry of this name, of any type.
    pub(crate) fn has(&self, name: &str) -> bool {
        self.folder_of(name).is_ok_and(|(folder, last)| {
            rustix::fs::statat(&folder, last, AtFlags::SYMLINK_NOFOLLOW).is_ok()
        })
    }

    /// Opens a file for reading; `None` if it does not exist.
    pub(crate) fn read(&self, name: &str) -> Result<Option<File>, ResultsError> {
        match self.file(name, OFlags::RDONLY) {
            Ok(file) => Ok(Some(file)),
            Err(ResultsError::Io { source, .. }) if source.kind() == io::ErrorKind::NotFound => {
                Ok(None)
            }
            Err(error) => Err(error),
        }
    }

    /// Returns the content of a text file, which may have at most `most` bytes. Returns `None` if
    /// the file does not exist.
    pub(crate) fn read_text(&self, name: &str, most: u64) -> Result<Option<String>, ResultsError> {
        let Some(file) = self.read(name)? else {
            return Ok(None);
        };
        let path = self.path_of(name);
        let too_long = || {
            let reason = format!(
                "it has more than {} MiB, which no file of this name has; it is not read",
                most >> 20
            );
            ResultsError::malformed(&path, reason)
        };
        let length = file.metadata().map_err(ResultsError::io(&path))?.len();
        if length > most {
            return Err(too_long());
        }
        let mut text = String::new();
        // The file may grow while it is read.
        let read = file.take(most + 1).read_to_string(&mut text);
        match read.map_err(ResultsError::io(&path))? as u64 > most {
            true => Err(too_long()),
            false => Ok(Some(text)),
        }
    }

    /// Creates a file for writing and reading.
    ///
    /// # Errors
    /// Fails with [`io::ErrorKind::AlreadyExists`], among others.
    pub(crate) fn create_new(&self, name: &str) -> Result<File, ResultsError> {
        self.check_own(&self.root, &self.path)?;
        self.file(name, OFlags::RDWR | OFlags::CREATE | OFlags::EXCL)
    }

    /// Opens a file for appending, and creates it if it does not exist.
    pub(crate) fn append(&self, name: &str) -> Result<File, ResultsError> {
        self.check_own(&self.root, &self.path)?;
        let file = self.file(name, OFlags::WRONLY | OFlags::CREATE | OFlags::APPEND)?;
        let path = self.path_of(name);
        let stat =
            rustix::fs::fstat(&file).map_err(|error| ResultsError::io(&path)(error.into()))?;
        // The file is changed in place, so it must not be a hard link to another file.
        match stat.st_nlink {
            1 => Ok(file),
            _ => Err(ResultsError::malformed(
                &path,
                "it has a second name (a hard link); remove it",
            )),
        }
    }

    /// Replaces a file atomically: a reader sees either the old content or the new.
    pub(crate) fn replace(&self, name: &str, bytes: &[u8]) -> Result<(), ResultsError> {
        let partial = partial(name);
        let mut file = self.begin(&partial)?;
        if let Err(error) = file.write_all(bytes) {
            // If the write fails, the partial file would only take space.
            let _ = self.remove(&partial);
            return Err(ResultsError::io(&self.path_of(name))(error));
        }
        self.rename(&partial, name)
    }

    /// Creates a file, after removing one that an earlier attempt left.
    pub(crate) fn begin(&self, name: &str) -> Result<File, ResultsError> {
        self.remove(name)?;
        self.create_new(name)
    }

    /// Renames a file within the directory.
    pub(crate) fn rename(&self, from: &str, to: &str) -> Result<(), ResultsError> {
        let ((old, from), (new, last)) = (self.folder_of(from)?, self.folder_of(to)?);
        rustix::fs::renameat(&old, from, &new, last)
            .map_err(|error| ResultsError::io(&self.path_of(to))(error.into()))
    }

    /// Removes a file. A symbolic link is removed, but not its target.
    pub(crate) fn remove(&self, name: &str) -> Result<(), ResultsError> {
        self.check_own(&self.root, &self.path)?;
        let (folder, last) = self.folder_of(name)?;
        match rustix::fs::unlinkat(&folder, last, AtFlags::empty()) {
            Ok(()) | Err(Errno::NOENT) => Ok(()),
            Err(error) => Err(ResultsError::io(&self.path_of(name))(error.into())),
        }
    }

    /// Creates a folder if it does not exist. Fails if other users can write in it.
    pub(crate) fn make_folder(&self, name: &str) -> Result<(), ResultsError> {
        match self.make_new_folder(name) {
            Err(ResultsError::Io { source, .. })
                if source.kind() == io::ErrorKind::AlreadyExists =>
            {
                self.check_own(self.folder(name)?, &self.path_of(name))
            }
            other => other,
        }
    }

    /// Creates a folder that must not exist yet.
    ///
    /// # Errors
    /// Fails with [`io::ErrorKind::AlreadyExists`], among others.
    pub(crate) fn make_new_folder(&self, name: &str) -> Result<(), ResultsError> {
        self.check_own(&self.root, &self.path)?;
        let (parent, last) = self.folder_of(name)?;
        rustix::fs::mkdirat(parent, last, Mode::from_raw_mode(FOLDER_MODE))
            .map_err(|error| ResultsError::io(&self.path_of(name))(error.into()))
    }

    /// Returns the entries of a folder, or of the directory itself (`.`): names, and true for
    /// regular files. Returns no entries if the folder does not exist.
    pub(crate) fn entries(&self, folder: &str) -> Result<Vec<(OsString, bool)>, ResultsError> {
        let path = self.path_of(folder);
        let failed = |error: Errno| ResultsError::io(&path)(error.into());
        let there = match self.folder(folder) {
            Err(ResultsError::Io { source, .. }) if source.kind() == io::ErrorKind::NotFound => {
                return Ok(Vec::new());
            }
            other => other?,
        };
        let mut found = Vec::new();
        for entry in Dir::read_from(&there).map_err(failed)? {
            let entry = entry.map_err(failed)?;
            let name = entry.file_name();
            if ![&b"."[..], b".."].contains(&name.to_bytes()) {
                let name = std::ffi::OsStr::from_bytes(name.to_bytes()).to_owned();
                let stat = rustix::fs::statat(&there, &name, AtFlags::SYMLINK_NOFOLLOW);
                let is_file = stat
                    .is_ok_and(|it| FileType::from_raw_mode(it.st_mode) == FileType::RegularFile);
                found.push((name, is_file));
            }
        }
        Ok(found)
    }

    /// Returns true if the directory and its folders contain only regular files for whose names
    /// `is_known` returns true.
    pub(crate) fn holds_only(&self, is_known: &dyn Fn(&str) -> bool) -> bool {
        let known = |name: &str, is_file: bool| is_file && is_known(name);
        let Ok(entries) = self.entries(".") else {
            return false;
        };
        entries.iter().all(|(name, is_file)| {
            let Some(name) = name.to_str() else {
                return false;
            };
            let below = || match self.entries(name) {
                Ok(below) => below.iter().all(|(last, is_file)| {
                    known(&format!("{name}/{}", last.to_string_lossy()), *is_file)
                }),
                Err(_) => false,
            };
            known(name, *is_file) || !is_file && below()
        })
    }

    /// Removes the files in a folder; entries of other types stay.
    pub(crate) fn remove_files(&self, folder: &str) -> Result<(), ResultsError> {
        for (name, is_file) in self.entries(folder)? {
            if is_file {
                let there = self.folder(folder)?;
                rustix::fs::unlinkat(&there, &name, AtFlags::empty()).map_err(|error| {
                    ResultsError::io(&self.path_of(folder).join(&name))(error.into())
                })?;
            }
        }
        Ok(())
    }

    /// Removes a folder and the files in it.
    pub(crate) fn remove_folder(&self, name: &str) -> Result<(), ResultsError> {
        self.remove_files(name)?;
        rustix::fs::unlinkat(&self.root, name, AtFlags::REMOVEDIR)
            .map_err(|error| ResultsError::io(&self.path_of(name))(error.into()))
    }

    /// Removes the entry `name` with all its content, if it exists. Links are removed, not
    /// followed.
    pub(crate) fn remove_all(&self, name: &str) -> Result<(), ResultsError> {
        self.check_own(&self.root, &self.path)?;
        if !self.has(name) {
            return Ok(());
        }
        let (folder, last) = self.folder_of(name)?;
        // The removal starts at the descriptor; below it, the standard library follows no links.
        let there = PathBuf::from(format!("/proc/self/fd/{}", folder.as_raw_fd())).join(last);
        let is_folder = fs::symlink_metadata(&there).is_ok_and(|it| it.is_dir());
        let removed = match is_folder {
            true => fs::remove_dir_all(&there),
            false => fs::remove_file(&there),
        };
        removed.map_err(ResultsError::io(&self.path_of(name)))
    }

    /// Moves a regular file from another directory on the same file system to `to`, which must not
    /// exist.
    pub(crate) fn take_over(&self, from: &Self, name: &str, to: &str) -> Result<(), ResultsError> {
        self.check_own(&self.root, &self.path)?;
        // Opening the file checks its type, because the name may refer to anything.
        drop(from.file(name, OFlags::RDONLY)?);
        let ((old, from_last), (new, to_last)) = (from.folder_of(name)?, self.folder_of(to)?);
        let flags = rustix::fs::RenameFlags::NOREPLACE;
        rustix::fs::renameat_with(old, from_last, new, to_last, flags)
            .map_err(|error| ResultsError::io(&self.path_of(to))(error.into()))
    }

    /// Opens the folder `name`. Fails if the name is a symbolic link.
    pub(crate) fn folder(&self, name: &str) -> Result<OwnedFd, ResultsError> {
        self.at(name, OFlags::RDONLY | OFlags::DIRECTORY)
    }

    /// Opens the folder that contains a file, and returns it with the file's name in that folder.
    fn folder_of<'a>(&self, name: &'a str) -> Result<(OwnedFd, &'a str), ResultsError> {
        let (folder, last) = name.rsplit_once('/').unwrap_or((".", name));
        Ok((self.folder(folder)?, last))
    }

    /// Opens a regular file. An entry of another type is refused at once, without side effects.
    fn file(&self, name: &str, flags: OFlags) -> Result<File, ResultsError> {
        let path = self.path_of(name);
        let failed = |error: Errno| ResultsError::io(&path)(error.into());
        // The type is checked before the file is opened, because opening a tape rewinds it. It is
        // checked again afterwards, because the entry may have been replaced in between.
        match self.at(name, OFlags::PATH | OFlags::NOFOLLOW) {
            Ok(found) => self.check_regular(&rustix::fs::fstat(found).map_err(failed)?, &path)?,
            Err(ResultsError::Io { source, .. })
                if source.kind() == io::ErrorKind::NotFound && flags.contains(OFlags::CREATE) => {}
            Err(error) => return Err(error),
        }
        let file = self.at(name, flags | OFlags::NONBLOCK | OFlags::NOCTTY)?;
        self.check_regular(&rustix::fs::fstat(&file).map_err(failed)?, &path)?;
        Ok(file.into())
    }

    fn check_regular(&self, stat: &rustix::fs::Stat, path: &Path) -> Result<(), ResultsError> {
        let kind = match FileType::from_raw_mode(stat.st_mode) {
            FileType::RegularFile => return Ok(()),
            FileType::Symlink => return Err(ResultsError::Link(path.to_owned())),
            FileType::Directory => "a directory",
            FileType::Fifo => "a FIFO",
            FileType::Socket => "a socket",
            FileType::CharacterDevice | FileType::BlockDevice => "a device",
            FileType::Unknown => "of an unknown kind",
        };
        Err(ResultsError::NotAFile {
            path: path.to_owned(),
            kind,
        })
    }

    fn at(&self, name: &str, flags: OFlags) -> Result<OwnedFd, ResultsError> {
        let mode = if flags.contains(OFlags::CREATE) {
            0o644
        } else {
            0
        };
        rustix::fs::openat2(
            &self.root,
            name,
            flags | OFlags::CLOEXEC,
            Mode::from_raw_mode(mode),
            ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_MAGICLINKS,
        )
        .map_err(|error| match error {
            Errno::LOOP => ResultsError::Link(self.path_of(name)),
            error => ResultsError::io(&self.path_of(name))(error.into()),
        })
    }

    /// Fails for a directory in which another user can create or replace files.
    fn check_own(&self, directory: impl AsFd, path: &Path) -> Result<(), ResultsError> {
        let stat =
            rustix::fs::fstat(directory).map_err(|error| ResultsError::io(path)(error.into()))?;
        if stat.st_uid != rustix::process::geteuid().as_raw() {
            return Err(ResultsError::OtherOwner {
                path: path.to_owned(),
                uid: stat.st_uid,
            });
        }
        match stat.st_mode & 0o022 {
            0 => Ok(()),
            _ => Err(ResultsError::OthersMayWrite(path.to_owned())),
        }
    }
}

/// Returns the name under which a file is written until it is complete.
pub(crate) fn partial(name: &str) -> String {
    format!("{name}.partial")
}

/// Access mode of new folders: other users may read them.
const FOLDER_MODE: u32 = 0o755;
