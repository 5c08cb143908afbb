//! IP settings of a namespace, below /proc/sys/net/ipv4 and /proc/sys/net/ipv6.
//!
//! Every namespace has directories of these names, and the kernel's cache keeps all of them in one
//! chain. Each lookup of one directory therefore examines those of all namespaces. With a thousand
//! hosts, this takes most of the time for a setting, so the directory is looked up once for all
//! settings.

use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::OwnedFd;

use rustix::fs::{Mode, OFlags, open, openat};
use rustix::io::Errno;

use crate::KernelError;

/// Settings of one namespace. They must be used by a thread inside it.
pub(crate) struct Settings {
    directory: OwnedFd,
    name: &'static str,
}

impl Settings {
    /// Opens the settings for IPv4, and for TCP over IPv4 and IPv6, in the namespace of the calling
    /// thread.
    pub(crate) fn here() -> Result<Self, KernelError> {
        Self::below(IPV4).map_err(|error| {
            KernelError::new(format!("open {IPV4}"), error.into())
                .missing_if(&[Errno::NOENT], "/proc to be mounted")
        })
    }

    /// Opens the settings for IPv6 in the namespace of the calling thread; `None` if the kernel has
    /// no IPv6.
    pub(crate) fn of_ipv6() -> Result<Option<Self>, KernelError> {
        match Self::below(IPV6) {
            Err(Errno::NOENT) => Ok(None),
            Err(error) => Err(KernelError::new(format!("open {IPV6}"), error.into())),
            Ok(settings) => Ok(Some(settings)),
        }
    }

    fn below(name: &'static str) -> Result<Self, Errno> {
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let directory = open(name, flags, Mode::empty())?;
        Ok(Self { directory, name })
    }

    /// Returns the value of a setting; `None` if this kernel has no such setting, or if it is not a
    /// number.
    pub(crate) fn number(&self, key: &str) -> Option<u64> {
        self.text(key)?.parse().ok()
    }

    /// Returns the value of a setting without surrounding blanks; `None` if this kernel has no such
    /// setting.
    pub(crate) fn text(&self, key: &str) -> Option<String> {
        let mut text = String::new();
        let mut file = self.open(key, OFlags::RDONLY).ok()?;
        file.read_to_string(&mut text).ok()?;
        Some(text.trim().to_owned())
    }

    pub(crate) fn write(&self, key: &str, value: &str) -> Result<(), KernelError> {
        self.put(self.open(key, OFlags::WRONLY), key, value)
    }

    /// Writes a setting as [`Self::write`] does, but ignores one that has disappeared with its
    /// interface.
    pub(crate) fn write_if_there(&self, key: &str, value: &str) -> Result<(), KernelError> {
        match self.open(key, OFlags::WRONLY) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
            file => self.put(file, key, value),
        }
    }

    fn open(&self, key: &str, flags: OFlags) -> io::Result<File> {
        let opened = openat(&self.directory, key, flags | OFlags::CLOEXEC, Mode::empty());
        Ok(opened.map(File::from)?)
    }

    fn put(&self, file: io::Result<File>, key: &str, value: &str) -> Result<(), KernelError> {
        let written = file.and_then(|mut file| file.write_all(value.as_bytes()));
        written.map_err(|error| {
            KernelError::new(format!("write {value} to {}/{key}", self.name), error)
                .missing_if(&[Errno::ROFS], "/proc/sys to be writable")
        })
    }
}

const IPV4: &str = "/proc/sys/net/ipv4";
const IPV6: &str = "/proc/sys/net/ipv6";
