//! The files of a run directory, all of which are opened, made, replaced and removed
//! here, and only here.
//!
//! A directory may have been prepared by somebody else: unpacked, copied, or left where
//! a run will be told to write. So names are looked up from a descriptor of the directory
//! and no symbolic link in it is ever followed, new files are new, and a directory into
//! which somebody else could put something meanwhile is not written to.

use std::ffi::OsString;
use std::fs::{self, File};
use std::io::{self, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustix::fs::{AtFlags, Dir, FileType, Mode, OFlags, ResolveFlags};
use rustix::io::Errno;

use crate::ResultsError;

/// A run directory. Names in it are `FILE` or `FOLDER/FILE`.
#[derive(Clone, Debug)]
pub(crate) struct Tree {
    path: PathBuf,
    root: Arc<OwnedFd>,
}

impl Tree {
    /// Makes a directory, unless there is one. It may be written to.
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

    /// One that is there.
    pub(crate) fn open(path: &Path) -> Result<Self, ResultsError> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let root = rustix::fs::open(path, flags, Mode::empty())
            .map_err(|error| ResultsError::io(path)(error.into()))?;
        Ok(Self {
            path: path.to_owned(),
            root: Arc::new(root),
        })
    }

    /// Where it is.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Where a file of it is, for messages.
    pub(crate) fn path_of(&self, name: &str) -> PathBuf {
        self.path.join(name)
    }

    /// Whether there is something of this name.
    pub(crate) fn has(&self, name: &str) -> bool {
        self.folder_of(name).is_ok_and(|(folder, last)| {
            rustix::fs::statat(&folder, last, AtFlags::SYMLINK_NOFOLLOW).is_ok()
        })
    }

    /// A file, for reading; `None` when there is none.
    pub(crate) fn read(&self, name: &str) -> Result<Option<File>, ResultsError> {
        match self.file(name, OFlags::RDONLY) {
            Ok(file) => Ok(Some(file)),
            Err(ResultsError::Io { source, .. }) if source.kind() == io::ErrorKind::NotFound => {
                Ok(None)
            }
            Err(error) => Err(error),
        }
    }

    /// A new file, for writing and reading.
    ///
    /// # Errors
    /// [`io::ErrorKind::AlreadyExists`] among others.
    pub(crate) fn create_new(&self, name: &str) -> Result<File, ResultsError> {
        self.check_own(&self.root, &self.path)?;
        self.file(name, OFlags::RDWR | OFlags::CREATE | OFlags::EXCL)
    }

    /// A file that is written at its end, and made if it is not there.
    pub(crate) fn append(&self, name: &str) -> Result<File, ResultsError> {
        self.check_own(&self.root, &self.path)?;
        let file = self.file(name, OFlags::WRONLY | OFlags::CREATE | OFlags::APPEND)?;
        let path = self.path_of(name);
        let stat =
            rustix::fs::fstat(&file).map_err(|error| ResultsError::io(&path)(error.into()))?;
        // Written in place, so it must be nobody else's file under another name.
        match stat.st_nlink {
            1 => Ok(file),
            _ => Err(ResultsError::malformed(
                &path,
                "it has a second name (a hard link); remove it",
            )),
        }
    }

    /// Puts a file in the place of what is there: a reader sees the old text or the new,
    /// whole.
    pub(crate) fn replace(&self, name: &str, bytes: &[u8]) -> Result<(), ResultsError> {
        let partial = partial(name);
        let mut file = self.begin(&partial)?;
        if let Err(error) = file.write_all(bytes) {
            // What is left of it would only take room.
            let _ = self.remove(&partial);
            return Err(ResultsError::io(&self.path_of(name))(error));
        }
        self.rename(&partial, name)
    }

    /// A file that is new: what an earlier attempt left is removed.
    pub(crate) fn begin(&self, name: &str) -> Result<File, ResultsError> {
        self.remove(name)?;
        self.create_new(name)
    }

    /// Gives a file of the directory another name in it.
    pub(crate) fn rename(&self, from: &str, to: &str) -> Result<(), ResultsError> {
        let ((old, from), (new, last)) = (self.folder_of(from)?, self.folder_of(to)?);
        rustix::fs::renameat(&old, from, &new, last)
            .map_err(|error| ResultsError::io(&self.path_of(to))(error.into()))
    }

    /// Removes a file, or a link but not what it leads to.
    pub(crate) fn remove(&self, name: &str) -> Result<(), ResultsError> {
        self.check_own(&self.root, &self.path)?;
        let (folder, last) = self.folder_of(name)?;
        match rustix::fs::unlinkat(&folder, last, AtFlags::empty()) {
            Ok(()) | Err(Errno::NOENT) => Ok(()),
            Err(error) => Err(ResultsError::io(&self.path_of(name))(error.into())),
        }
    }

    /// Makes a folder, unless there is one. It may be written to.
    pub(crate) fn make_folder(&self, name: &str) -> Result<(), ResultsError> {
        self.check_own(&self.root, &self.path)?;
        let path = self.path_of(name);
        match rustix::fs::mkdirat(&self.root, name, Mode::from_raw_mode(FOLDER_MODE)) {
            Ok(()) | Err(Errno::EXIST) => self.check_own(self.folder(name)?, &path),
            Err(error) => Err(ResultsError::io(&path)(error.into())),
        }
    }

    /// The files in a folder, or in the directory itself (`.`): names as they are, and
    /// whether each is a plain file. No folder has none.
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

    /// Removes the files in a folder; what else is in it stays.
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

    /// Removes a folder with the files in it.
    pub(crate) fn remove_folder(&self, name: &str) -> Result<(), ResultsError> {
        self.remove_files(name)?;
        rustix::fs::unlinkat(&self.root, name, AtFlags::REMOVEDIR)
            .map_err(|error| ResultsError::io(&self.path_of(name))(error.into()))
    }

    /// The folder `name`, which is one and no link to one.
    pub(crate) fn folder(&self, name: &str) -> Result<OwnedFd, ResultsError> {
        self.at(name, OFlags::RDONLY | OFlags::DIRECTORY)
    }

    /// The folder that a file is in, and the file's name there.
    fn folder_of<'a>(&self, name: &'a str) -> Result<(OwnedFd, &'a str), ResultsError> {
        let (folder, last) = name.rsplit_once('/').unwrap_or((".", name));
        Ok((self.folder(folder)?, last))
    }

    /// A plain file. (A pipe would make us wait, a device would do what it does.)
    fn file(&self, name: &str, flags: OFlags) -> Result<File, ResultsError> {
        let file: File = self
            .at(name, flags | OFlags::NONBLOCK | OFlags::NOCTTY)?
            .into();
        let path = self.path_of(name);
        match file.metadata() {
            Ok(metadata) if metadata.is_file() => Ok(file),
            Ok(_) => Err(ResultsError::malformed(&path, "it is not a plain file")),
            Err(error) => Err(ResultsError::io(&path)(error)),
        }
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
            ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS,
        )
        .map_err(|error| match error {
            Errno::LOOP => ResultsError::Link(self.path_of(name)),
            error => ResultsError::io(&self.path_of(name))(error.into()),
        })
    }

    /// Only this user can have put there what is in it, and will put there what comes.
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

/// The name under which a file is written until it is whole.
pub(crate) fn partial(name: &str) -> String {
    format!("{name}.partial")
}

/// Others may look.
const FOLDER_MODE: u32 = 0o755;
