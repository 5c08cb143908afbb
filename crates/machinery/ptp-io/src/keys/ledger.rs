//! Ledger of the Syncs that `bls-once` keys may have signed, so that no Sync is signed twice.
//!
//! Each epoch has a file `once.EPOCH.ledger`, which is created together with the key. For each
//! grandmaster, the file records the end of the last reserved block of sequence numbers. A block is
//! on the disk before its first number is used. A key without a ledger is refused, because its past
//! signatures are unknown. The one program that signs with the directory's keys holds a lock on
//! `once.lock`.

use std::fs::{self, File, OpenOptions, TryLockError};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use serde::{Deserialize, Serialize};
use timeloom_ptp::security::{Ledger, Stream};
use timeloom_wire::ClockIdentity;

use super::file::{Kind, read, write};
use crate::PtpError;

/// Record for one grandmaster: its sequence numbers below `end` count as used.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Reserved {
    clock: String,
    port: u16,
    sdo_id: u16,
    domain: u8,
    end: u64,
}

#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct LedgerFile {
    epoch: u8,
    #[serde(default)]
    reserved: Vec<Reserved>,
}

/// Maximum number of grandmasters in a ledger, which is more than a network has with verified
/// Syncs. Nothing is prepared for further ones.
const MOST: usize = 256;

fn path_of(directory: &Path, epoch: u8) -> PathBuf {
    directory.join(format!("once.{epoch}.ledger"))
}

fn store(path: &Path, file: &LedgerFile) -> Result<(), PtpError> {
    let header =
        "Syncs that the keys of this epoch may have signed. Never copy or restore this file.";
    write(path, Kind::Secret, header, file)
}

/// Creates the ledger for a new key.
pub(super) fn make(directory: &Path, epoch: u8) -> Result<(), PtpError> {
    let file = LedgerFile {
        epoch,
        reserved: Vec::new(),
    };
    store(&path_of(directory, epoch), &file)
}

/// Removes the ledger of an epoch whose key is removed.
pub(super) fn remove(directory: &Path, epoch: u8) {
    let _ = fs::remove_file(path_of(directory, epoch));
}

/// Lock that makes this program the only one that signs with a directory's keys.
#[derive(Debug)]
pub(crate) struct KeyLock {
    _held: File,
}

impl KeyLock {
    pub(crate) fn take(directory: &Path) -> Result<Self, PtpError> {
        let path = directory.join("once.lock");
        let file = OpenOptions::new()
            .write(true)
            .create(true)
            .truncate(false)
            .mode(0o600)
            .open(&path)
            .map_err(PtpError::file(&path))?;
        match file.try_lock() {
            Ok(()) => Ok(Self { _held: file }),
            Err(TryLockError::WouldBlock) => Err(PtpError::usage(format!(
                "another program signs with the keys of {}: bls-once keys must sign nothing twice",
                directory.display()
            ))),
            Err(TryLockError::Error(error)) => Err(PtpError::file(&path)(error)),
        }
    }
}

/// Ledger of one epoch. Clones write to the same file.
#[derive(Clone, Debug)]
pub(crate) struct FileLedger(Arc<Mutex<Open>>);

#[derive(Debug)]
struct Open {
    path: PathBuf,
    file: LedgerFile,
}

impl FileLedger {
    /// Opens the ledger of `epoch`. The caller proves by `_lock` that it holds the [`KeyLock`].
    pub(crate) fn open(directory: &Path, epoch: u8, _lock: &KeyLock) -> Result<Self, PtpError> {
        let path = path_of(directory, epoch);
        if !path.exists() {
            return Err(PtpError::usage(format!(
                "{} is missing, so the Syncs that this key has signed are unknown: `timeloom ptp \
                 rotate` makes another key",
                path.display()
            )));
        }
        let file: LedgerFile = read(&path, Kind::Secret)?;
        if file.epoch != epoch {
            return Err(PtpError::usage(format!(
                "{} is the ledger of epoch {}",
                path.display(),
                file.epoch
            )));
        }
        Ok(Self(Arc::new(Mutex::new(Open { path, file }))))
    }

    /// Returns the first sequence number of the grandmaster `clock` that is not reserved.
    pub(crate) fn beyond(&self, clock: ClockIdentity) -> u64 {
        let name = clock.to_string();
        self.0.lock().map_or(0, |open| {
            let own = open.file.reserved.iter().filter(|r| r.clock == name);
            own.map(|reserved| reserved.end).max().unwrap_or(0)
        })
    }
}

impl Ledger for FileLedger {
    fn reserve(&mut self, stream: &Stream, from: u64, limit: u64, count: u64) -> Option<u64> {
        let mut open = self.0.lock().ok()?;
        if stream.epoch != open.file.epoch {
            return None;
        }
        let clock = stream.source.clock.to_string();
        let reserved = &mut open.file.reserved;
        let is_it = |r: &Reserved| {
            (r.port, r.sdo_id, r.domain) == (stream.source.port, stream.sdo_id, stream.domain)
                && r.clock == clock
        };
        let at = reserved.iter().position(is_it);
        let end = at.map_or(0, |at| reserved[at].end);
        let first = from.max(end);
        if first > limit || (at.is_none() && reserved.len() >= MOST) {
            return None;
        }
        let end = first + count;
        match at {
            Some(at) => reserved[at].end = end,
            None => reserved.push(Reserved {
                clock,
                port: stream.source.port,
                sdo_id: stream.sdo_id,
                domain: stream.domain,
                end,
            }),
        }
        // If the numbers cannot be written to the file, they count as used nevertheless.
        store(&open.path, &open.file).ok()?;
        Some(first)
    }
}

#[cfg(test)]
mod tests {
    use timeloom_wire::PortIdentity;

    use super::*;

    fn stream(node: u8, epoch: u8) -> Stream {
        Stream {
            source: PortIdentity {
                clock: ClockIdentity([0, 0, 0, 0xff, 0xfe, 0, 0, node]),
                port: 1,
            },
            sdo_id: 0,
            domain: 0,
            epoch,
        }
    }

    #[test]
    fn reservations_remain_after_the_file_is_read_again() {
        let scratch = tempfile::tempdir().unwrap();
        make(scratch.path(), 3).unwrap();
        let gm = stream(1, 3);
        {
            let lock = KeyLock::take(scratch.path()).unwrap();
            let mut ledger = FileLedger::open(scratch.path(), 3, &lock).unwrap();
            assert_eq!(ledger.reserve(&gm, 100, 140, 64), Some(100));
            assert_eq!(ledger.reserve(&gm, 100, 140, 64), None, "164 is beyond");
            assert_eq!(ledger.clone().reserve(&gm, 150, 190, 64), Some(164));
            assert_eq!(ledger.reserve(&stream(2, 3), 5, 10, 64), Some(5));
            assert_eq!(ledger.reserve(&stream(1, 4), 5, 10, 64), None, "epoch");
            // A second program cannot take the lock.
            let error = KeyLock::take(scratch.path()).unwrap_err();
            assert!(error.to_string().contains("another program"), "{error}");
        }
        let lock = KeyLock::take(scratch.path()).unwrap();
        let mut ledger = FileLedger::open(scratch.path(), 3, &lock).unwrap();
        assert_eq!(ledger.beyond(gm.source.clock), 228);
        assert_eq!(ledger.beyond(ClockIdentity([9; 8])), 0);
        assert_eq!(ledger.reserve(&gm, 100, 220, 64), None);
        assert_eq!(ledger.reserve(&gm, 200, 240, 64), Some(228));
        assert_eq!(ledger.reserve(&gm, 1000, 1030, 64), Some(1000));
    }

    #[test]
    fn a_key_without_its_ledger_is_refused_and_a_disk_that_is_full_reserves_nothing() {
        let scratch = tempfile::tempdir().unwrap();
        let lock = KeyLock::take(scratch.path()).unwrap();
        let error = FileLedger::open(scratch.path(), 1, &lock).unwrap_err();
        assert!(error.to_string().contains("is missing"), "{error}");
        make(scratch.path(), 1).unwrap();
        fs::rename(path_of(scratch.path(), 1), path_of(scratch.path(), 2)).unwrap();
        let error = FileLedger::open(scratch.path(), 2, &lock).unwrap_err();
        assert!(error.to_string().contains("ledger of epoch 1"), "{error}");
        make(scratch.path(), 1).unwrap();
        let mut ledger = FileLedger::open(scratch.path(), 1, &lock).unwrap();
        let gm = stream(1, 1);
        assert_eq!(ledger.reserve(&gm, 7, 20, 64), Some(7));
        // The directory is removed, so that nothing can be written.
        fs::remove_dir_all(scratch.path()).unwrap();
        assert_eq!(ledger.reserve(&gm, 80, 100, 64), None);
    }

    #[test]
    fn there_are_not_more_grandmasters_than_there_can_be() {
        let scratch = tempfile::tempdir().unwrap();
        make(scratch.path(), 1).unwrap();
        let lock = KeyLock::take(scratch.path()).unwrap();
        let mut ledger = FileLedger::open(scratch.path(), 1, &lock).unwrap();
        for node in 0..=255 {
            assert_eq!(ledger.reserve(&stream(node, 1), 1, 9, 64), Some(1));
        }
        let mut another = stream(1, 1);
        another.domain = 9;
        assert_eq!(ledger.reserve(&another, 1, 9, 64), None);
        assert_eq!(ledger.reserve(&stream(1, 1), 65, 90, 64), Some(65));
    }
}
