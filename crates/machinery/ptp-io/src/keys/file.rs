//! Input and output of key files: permissions, atomic replacement, hexadecimal.

use std::fs::{self, File, OpenOptions};
use std::io::{Read, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::Path;

use data_encoding::HEXLOWER_PERMISSIVE;
use rustix::process::geteuid;
use serde::Serialize;
use serde::de::DeserializeOwned;
use timeloom_wire::ClockIdentity;
use timeloom_wire::tlv::Suite;

use crate::PtpError;

/// Permissions that a file must have.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    /// Readable only by the owner.
    Secret,
    /// Writable only by the owner.
    Public,
}

pub(super) fn read<T: DeserializeOwned>(path: &Path, kind: Kind) -> Result<T, PtpError> {
    // The file is opened once, so that the file that was checked is the one that is read.
    let file = File::open(path).map_err(PtpError::file(path))?;
    let metadata = file.metadata().map_err(PtpError::file(path))?;
    let (mode, owner) = (metadata.mode() & 0o777, metadata.uid());
    let refused = match kind {
        Kind::Secret if mode & 0o077 != 0 => Some("others can read this secret: chmod 600"),
        Kind::Public if mode & 0o022 != 0 => Some("others can write it: chmod go-w"),
        _ => None,
    };
    if let Some(why) = refused {
        return Err(PtpError::usage(format!(
            "{} has mode {mode:03o}: {why} {}",
            path.display(),
            path.display()
        )));
    }
    let me = geteuid().as_raw();
    if owner != me && owner != 0 {
        return Err(PtpError::usage(format!(
            "{} belongs to user {owner}, who could change it",
            path.display()
        )));
    }
    let mut text = String::new();
    let mut limited = file.take(MOST_BYTES + 1);
    limited
        .read_to_string(&mut text)
        .map_err(PtpError::file(path))?;
    if text.len() as u64 > MOST_BYTES {
        return Err(PtpError::usage(format!(
            "{} is longer than {MOST_BYTES} bytes, so it is not a key file",
            path.display()
        )));
    }
    parse(&text).map_err(|error| PtpError::usage(format!("{}: {error}", path.display())))
}

/// Parses the content of a key file.
pub(super) fn parse<T: DeserializeOwned>(text: &str) -> Result<T, toml::de::Error> {
    toml::from_str(text)
}

/// Maximum size of a file in bytes; a ring of some ten thousand keys has this size.
const MOST_BYTES: u64 = 16 << 20;

/// Replaces the file at `path` atomically, so that a reader finds the old content or the new one.
pub(super) fn write<T: Serialize>(
    path: &Path,
    kind: Kind,
    header: &str,
    value: &T,
) -> Result<(), PtpError> {
    let body = toml::to_string(value).expect("key files are plain data");
    let mode = if kind == Kind::Secret { 0o600 } else { 0o644 };
    let fresh = path.with_extension("new");
    let _ = fs::remove_file(&fresh);
    let written = (|| {
        let mut file = OpenOptions::new()
            .write(true)
            .create_new(true)
            .mode(mode)
            .open(&fresh)?;
        write!(file, "# {header}\n{body}")?;
        file.sync_all()?;
        fs::rename(&fresh, path)?;
        // Syncs the directory, so that the file's name is on the disk as well.
        match path
            .parent()
            .filter(|parent| !parent.as_os_str().is_empty())
        {
            Some(parent) => fs::File::open(parent)?.sync_all(),
            None => fs::File::open(".")?.sync_all(),
        }
    })();
    written.map_err(PtpError::file(path))
}

pub(super) fn from_hex(text: &str) -> Option<Vec<u8>> {
    HEXLOWER_PERMISSIVE.decode(text.as_bytes()).ok()
}

/// Parses an identity such as `02544c.fffe.000101`, with or without points or colons.
pub(super) fn parse_clock(text: &str) -> Option<ClockIdentity> {
    let digits: String = text
        .chars()
        .filter(|c| !matches!(c, '.' | ':' | '-'))
        .collect();
    from_hex(&digits)?.try_into().ok().map(ClockIdentity)
}

/// Returns the name of a suite in key files and on the command line.
pub const fn suite_name(suite: Suite) -> &'static str {
    match suite {
        Suite::Bls => "bls",
        Suite::Ed25519 => "ed25519",
        Suite::BlsOnce => "bls-once",
    }
}

pub(super) fn suite_named(name: &str) -> Option<Suite> {
    Suite::ALL
        .into_iter()
        .find(|suite| suite_name(*suite) == name)
}
