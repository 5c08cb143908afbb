//! File with a group's key, for the standard's AUTHENTICATION TLV.

use std::path::Path;

use serde::{Deserialize, Serialize};
use timeloom_ptp::security::GroupKey;

use super::file::{Kind, from_hex, read};
use crate::PtpError;

/// Security association with one key; linuxptp has the same in its `sa_file`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct GroupFile {
    /// linuxptp's `spp`.
    pub policy: u8,
    /// linuxptp's `active_key_id`, from 1.
    pub key_id: u32,
    /// The key, at least 16 octets, in hexadecimal digits.
    pub key: String,
}

/// Shortest key, in octets; shorter ones can be guessed.
const LEAST: usize = 16;

impl GroupFile {
    /// Returns the key.
    ///
    /// # Errors
    /// Fails if the key is invalid.
    pub fn key(&self) -> Result<GroupKey, PtpError> {
        let key = from_hex(&self.key).filter(|key| key.len() >= LEAST);
        let key = key.ok_or_else(|| {
            PtpError::usage(format!(
                "`key` is to be {LEAST} octets or more in hexadecimal digits"
            ))
        })?;
        if self.key_id == 0 {
            return Err(PtpError::usage("`key_id` counts from 1"));
        }
        Ok(GroupKey::new(self.policy, self.key_id, &key))
    }

    /// Reads the file, which must be readable only by its owner.
    ///
    /// # Errors
    /// Fails with the file and the reason.
    pub fn read(path: &Path) -> Result<GroupKey, PtpError> {
        let file: Self = read(path, Kind::Secret)?;
        file.key()
            .map_err(|error| PtpError::usage(format!("{}: {error}", path.display())))
    }
}
