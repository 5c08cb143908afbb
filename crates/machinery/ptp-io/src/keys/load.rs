//! Loading of a clock's keys from its key directory, at the start and whenever the files change.

use std::collections::HashMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::SystemTime;

use timeloom_ptp::security::{KeyRing, Limits, Policy, SecretKey, Security};
use timeloom_sys::clock::realtime_ns;
use timeloom_wire::ClockIdentity;
use timeloom_wire::tlv::EntryForm;

use super::authority::public_of;
use super::node::NodeFile;
use super::ring::RingFile;
use crate::{Names, PtpError};

/// Directory of key files, with the state of the files that was loaded last.
#[derive(Debug)]
pub struct KeyDirectory {
    path: PathBuf,
    serial: u64,
    seen: Option<[SystemTime; 3]>,
    /// Epochs in force, each with its end in seconds since 1970.
    ends: Vec<(u8, i64)>,
    /// Epochs in force whose end has been noticed.
    noticed: Vec<u8>,
}

/// Keys that were loaded and checked.
#[derive(Clone, Debug)]
pub struct LoadedKeys {
    /// This clock's identity, from its key file.
    pub clock: ClockIdentity,
    /// Name of this clock.
    pub name: String,
    /// Index of this clock in the ring.
    pub index: u16,
    /// Secret key of this clock for the signing epoch.
    pub secret: Arc<SecretKey>,
    /// Number of the signing epoch.
    pub epoch: u8,
    /// Public keys of all clocks.
    pub ring: Arc<KeyRing>,
    /// Names of all clocks, by identity.
    pub names: Names,
    /// Serial number of the ring.
    pub serial: u64,
    /// True if this clock is permitted to be grandmaster.
    pub may_lead: bool,
}

const FILES: [&str; 3] = ["node.key", "ring.toml", "authority.pub"];

impl KeyDirectory {
    /// Creates a handle of the directory at `path`. No file is read yet.
    pub fn new(path: &Path) -> Self {
        Self {
            path: path.to_owned(),
            serial: 0,
            seen: None,
            ends: Vec::new(),
            noticed: Vec::new(),
        }
    }

    /// Reads and checks all key files.
    ///
    /// # Errors
    /// Fails with a readable reason, for example a wrong permission, signature, proof, epoch or
    /// index.
    pub fn load(&mut self) -> Result<LoadedKeys, PtpError> {
        self.seen = self.times();
        let loaded = self.check(realtime_ns() / 1_000_000_000)?;
        self.serial = loaded.0.serial;
        self.ends = loaded.1;
        self.noticed.clear();
        Ok(loaded.0)
    }

    /// Returns true if a file was written since the last load, or if an epoch has ended since the
    /// last call.
    pub fn is_changed(&mut self) -> bool {
        let ended: Vec<u8> = self
            .expired()
            .filter(|epoch| !self.noticed.contains(epoch))
            .collect();
        let times = self.times();
        let written = times.is_some() && times != self.seen;
        let changed = written || !ended.is_empty();
        self.noticed.extend(ended);
        changed
    }

    /// Returns those epochs of the loaded ring whose end has passed.
    pub fn expired(&self) -> impl Iterator<Item = u8> + '_ {
        let now_s = realtime_ns() / 1_000_000_000;
        self.ends
            .iter()
            .filter(move |(_, end)| now_s > *end)
            .map(|(epoch, _)| *epoch)
    }

    fn times(&self) -> Option<[SystemTime; 3]> {
        let times: Option<Vec<_>> = FILES
            .iter()
            .map(|name| fs::metadata(self.path.join(name)).ok()?.modified().ok())
            .collect();
        times?.try_into().ok()
    }

    fn check(&self, now_s: i64) -> Result<(LoadedKeys, Vec<(u8, i64)>), PtpError> {
        let node = NodeFile::read(&self.path.join(FILES[0]))?;
        let path = self.path.join(FILES[1]);
        let ring = RingFile::read(&path)?;
        if !ring.is_signed_by(&public_of(&self.path.join(FILES[2]))?) {
            return Err(PtpError::usage(format!(
                "{}: the authority's signature does not hold",
                path.display()
            )));
        }
        if ring.serial < self.serial {
            return Err(PtpError::usage(format!(
                "{} has serial {}, older than {} which is in force",
                path.display(),
                ring.serial,
                self.serial
            )));
        }
        let epoch = ring.signing_epoch;
        if !ring.is_current(epoch, now_s) {
            return Err(PtpError::usage(format!(
                "{}: the signing epoch {epoch} has expired: rotate and sign again",
                path.display()
            )));
        }
        let clock = node.identity()?;
        let secret = node
            .secret(epoch)
            .ok_or_else(|| {
                PtpError::usage(format!(
                    "node.key has no secret of epoch {epoch}: rotate, then have it signed"
                ))
            })?
            .key()?;
        let keys = ring.key_ring(now_s)?;
        let own = keys
            .member(clock, epoch)
            .filter(|member| member.key == secret.public())
            .ok_or_else(|| {
                PtpError::usage(format!(
                    "{} does not hold this clock's key of epoch {epoch}",
                    path.display()
                ))
            })?;
        let (index, may_lead) = (own.index, own.grandmaster);
        let names: HashMap<_, _> = ring
            .members
            .iter()
            .filter_map(|member| Some((member.identity().ok()?, member.name.clone())))
            .collect();
        let loaded = LoadedKeys {
            clock,
            name: node.name,
            index,
            secret: Arc::new(secret),
            epoch,
            ring: Arc::new(keys),
            names: Names(names),
            serial: ring.serial,
            may_lead,
        };
        Ok((loaded, ring.ends()))
    }
}

impl LoadedKeys {
    /// Returns the keys in the form that the state machines use.
    pub fn security(
        &self,
        policy: Policy,
        form: EntryForm,
        secondary: bool,
        max_hops: u8,
    ) -> Security {
        Security {
            clock: self.clock,
            index: self.index,
            secret: self.secret.clone(),
            epoch: self.epoch,
            ring: self.ring.clone(),
            form,
            policy,
            limits: Limits {
                max_hops,
                ..Limits::default()
            },
            watch: self.secret.suite().is_aggregate(),
            secondary,
            bind_vid: false,
            // The first sequence number is derived from the seconds of the system clock. No start
            // then reuses numbers of an earlier start, unless the clock was set back in between.
            first_sequence: ((realtime_ns() / 1_000_000_000).max(0).unsigned_abs() & 0xffff_ffff)
                << 16,
        }
    }
}
