//! File with the key of a group, for the AUTHENTICATION TLV of IEEE 1588.

use std::path::Path;

use serde::{Deserialize, Serialize};
use timeloom_ptp::security::GroupKey;

use super::file::{Kind, from_hex, read};
use crate::PtpError;

/// Security association with a single key. linuxptp has the same values in its `sa_file`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct GroupFile {
    /// Security parameters pointer, `spp` in linuxptp.
    pub policy: u8,
    /// Number of the key, `active_key_id` in linuxptp; at least 1.
    pub key_id: u32,
    /// Key of at least 16 octets, in hexadecimal digits.
    pub key: String,
}

/// Minimum length of a key in octets; shorter keys can be guessed.
const LEAST: usize = 16;

impl GroupFile {
    /// Decodes and returns the key.
    ///
    /// # Errors
    /// Fails if the key is invalid.
    pub fn key(&self) -> Result<GroupKey, PtpError> {
        let key = from_hex(&self.key).filter(|key| key.len() >= LEAST);
        let key = key.ok_or_else(|| {
            PtpError::usage(format!(
                "`key` must be at least {LEAST} octets, in hexadecimal digits"
            ))
        })?;
        if self.key_id == 0 {
            return Err(PtpError::usage("`key_id` must be at least 1"));
        }
        Ok(GroupKey::new(self.policy, self.key_id, &key))
    }

    /// Reads the file, which must be readable only by its owner.
    ///
    /// # Errors
    /// Fails with the file's path and the reason.
    pub fn read(path: &Path) -> Result<GroupKey, PtpError> {
        let file: Self = read(path, Kind::Secret)?;
        file.key()
            .map_err(|error| PtpError::usage(format!("{}: {error}", path.display())))
    }
}
