//! The settings of a namespace's IPv4, below /proc/sys/net/ipv4.
//!
//! Every namespace has a directory of that name, and the kernel's cache keeps all of them in one
//! chain, in which each look for one takes another look at those of the others. Among a thousand
//! hosts that is most of what a setting costs, so the way there is gone once for all settings.

use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::OwnedFd;

use rustix::fs::{Mode, OFlags, open, openat};
use rustix::io::Errno;

use crate::KernelError;

/// Those of one namespace, to be used inside of it.
pub(crate) struct Settings(OwnedFd);

impl Settings {
    /// Those of the calling thread's namespace.
    pub(crate) fn here() -> Result<Self, KernelError> {
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let directory = open(DIRECTORY, flags, Mode::empty());
        let directory = directory.map_err(|error| {
            KernelError::new(format!("open {DIRECTORY}"), error.into())
                .missing_if(&[Errno::NOENT], "/proc to be mounted")
        })?;
        Ok(Self(directory))
    }

    /// `None` where this kernel has no such setting, or it is no number.
    pub(crate) fn number(&self, key: &str) -> Option<u64> {
        let mut text = String::new();
        let mut file = self.open(key, OFlags::RDONLY).ok()?;
        file.read_to_string(&mut text).ok()?;
        text.trim().parse().ok()
    }

    pub(crate) fn write(&self, key: &str, value: &str) -> Result<(), KernelError> {
        put(self.open(key, OFlags::WRONLY), key, value)
    }

    /// As [`Self::write`]; what is gone, with its interface, needs no value.
    pub(crate) fn write_if_there(&self, key: &str, value: &str) -> Result<(), KernelError> {
        match self.open(key, OFlags::WRONLY) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
            file => put(file, key, value),
        }
    }

    fn open(&self, key: &str, flags: OFlags) -> io::Result<File> {
        let opened = openat(&self.0, key, flags | OFlags::CLOEXEC, Mode::empty());
        Ok(opened.map(File::from)?)
    }
}

fn put(file: io::Result<File>, key: &str, value: &str) -> Result<(), KernelError> {
    let written = file.and_then(|mut file| file.write_all(value.as_bytes()));
    written.map_err(|error| {
        KernelError::new(format!("write {value} to {DIRECTORY}/{key}"), error)
            .missing_if(&[Errno::ROFS], "/proc/sys to be writable")
    })
}

const DIRECTORY: &str = "/proc/sys/net/ipv4";
