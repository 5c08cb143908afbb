//! Key file of a clock.

use std::path::Path;

use data_encoding::HEXLOWER;
use serde::{Deserialize, Serialize};
use timeloom_ptp::security::{MAX_PORTS, SecretKey};
use timeloom_wire::ClockIdentity;
use timeloom_wire::tlv::Suite;

use super::file::{Kind, from_hex, parse_clock, read, suite_name, suite_named, write};
use super::ledger;
use super::ring::MemberFile;
use crate::{KernelRandom, PtpError};

/// Content of `node.key`. For each secret key, the file contains the 32 random octets from which
/// the key is derived.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct NodeFile {
    pub(super) name: String,
    pub(super) clock: String,
    pub(super) secrets: Vec<SecretFile>,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct SecretFile {
    pub(super) epoch: u8,
    pub(super) suite: String,
    pub(super) secret: String,
    /// Number of ports that have keys; present with `bls-once` only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) ports: Option<u8>,
}

/// Content of `node.pub`, with one entry per epoch.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct PublicFile {
    pub(super) members: Vec<MemberFile>,
}

impl SecretFile {
    pub(super) fn key(&self) -> Result<SecretKey, PtpError> {
        let suite = suite_named(&self.suite);
        let octets: Option<[u8; 32]> =
            from_hex(&self.secret).and_then(|octets| octets.try_into().ok());
        match (suite, octets) {
            (Some(suite), Some(octets)) => {
                let ports = self.ports.unwrap_or(PORTS);
                Ok(SecretKey::with_ports(suite, &octets, ports))
            }
            _ => Err(PtpError::usage(format!(
                "the secret of epoch {} is damaged",
                self.epoch
            ))),
        }
    }
}

impl NodeFile {
    pub(super) fn read(path: &Path) -> Result<Self, PtpError> {
        read(path, Kind::Secret)
    }

    pub(super) fn identity(&self) -> Result<ClockIdentity, PtpError> {
        parse_clock(&self.clock)
            .ok_or_else(|| PtpError::usage(format!("`{}` is not a clock identity", self.clock)))
    }

    pub(super) fn secret(&self, epoch: u8) -> Option<&SecretFile> {
        self.secrets.iter().find(|secret| secret.epoch == epoch)
    }

    fn public(&self) -> Result<PublicFile, PtpError> {
        let member = |secret: &SecretFile| {
            let key = secret.key()?;
            Ok(MemberFile {
                name: self.name.clone(),
                clock: self.clock.clone(),
                index: 0,
                epoch: secret.epoch,
                suite: secret.suite.clone(),
                key: HEXLOWER.encode(&key.public().to_bytes()),
                proof: HEXLOWER.encode(&key.prove()),
                grandmaster: false,
            })
        };
        Ok(PublicFile {
            members: self
                .secrets
                .iter()
                .map(member)
                .collect::<Result<_, PtpError>>()?,
        })
    }

    fn write(&self, directory: &Path) -> Result<(), PtpError> {
        write(
            &directory.join("node.key"),
            Kind::Secret,
            "Secret keys of a PTP clock. Never copy this file.",
            self,
        )?;
        write(
            &directory.join("node.pub"),
            Kind::Public,
            "Public keys of a PTP clock, for the authority.",
            &self.public()?,
        )
    }
}

/// Number of ports that have keys, for a file that does not state it because its keys are older.
const PORTS: u8 = 4;

fn fresh(epoch: u8, suite: Suite, ports: Option<u8>) -> Result<SecretFile, PtpError> {
    let secret = HEXLOWER.encode(&KernelRandom::open()?.key());
    Ok(SecretFile {
        epoch,
        suite: suite_name(suite).to_owned(),
        secret,
        ports: ports.filter(|_| suite == Suite::BlsOnce),
    })
}

/// Creates `node.key` and `node.pub` of a clock in `directory`, for epoch 1. If the suite has a key
/// for each port ([`Suite::BlsOnce`]), keys are created for `ports` ports.
///
/// # Errors
/// Fails if there is a key already, because nothing is overwritten.
pub fn make_node(
    directory: &Path,
    name: &str,
    clock: &str,
    suite: Suite,
    ports: u8,
) -> Result<(), PtpError> {
    if !(1..=MAX_PORTS).contains(&ports) {
        return Err(PtpError::usage(format!(
            "a clock must have 1 to {MAX_PORTS} ports"
        )));
    }
    std::fs::create_dir_all(directory).map_err(PtpError::file(directory))?;
    let path = directory.join("node.key");
    if path.exists() {
        return Err(PtpError::usage(format!(
            "{} exists; `timeloom ptp rotate` adds the key of the next epoch",
            path.display()
        )));
    }
    let clock = parse_clock(clock).ok_or_else(|| {
        PtpError::usage(format!(
            "`{clock}` is not a clock identity: write 16 hexadecimal digits"
        ))
    })?;
    let file = NodeFile {
        name: name.to_owned(),
        clock: clock.to_string(),
        secrets: vec![fresh(1, suite, Some(ports))?],
    };
    if suite == Suite::BlsOnce {
        ledger::make(directory, 1)?;
    }
    file.write(directory)
}

/// Adds a key for the next epoch and removes all but the newest `keep` keys. Returns the new epoch.
///
/// # Errors
/// Fails if there is no key yet, or if all 255 epoch numbers are used.
pub fn rotate(directory: &Path, keep: usize) -> Result<u8, PtpError> {
    let mut file = NodeFile::read(&directory.join("node.key"))?;
    let newest = file.secrets.iter().max_by_key(|secret| secret.epoch);
    let newest = newest.ok_or_else(|| PtpError::usage("node.key holds no secret"))?;
    let epoch = newest
        .epoch
        .checked_add(1)
        .ok_or_else(|| PtpError::usage("the last epoch, 255, is in use"))?;
    let suite = suite_named(&newest.suite)
        .ok_or_else(|| PtpError::usage("node.key names an unknown suite"))?;
    let ports = newest.ports;
    file.secrets.push(fresh(epoch, suite, ports)?);
    file.secrets.sort_by_key(|secret| secret.epoch);
    let surplus = file.secrets.len().saturating_sub(keep.max(1));
    let gone: Vec<u8> = file.secrets.drain(..surplus).map(|s| s.epoch).collect();
    if suite == Suite::BlsOnce {
        ledger::make(directory, epoch)?;
    }
    file.write(directory)?;
    gone.into_iter()
        .for_each(|epoch| ledger::remove(directory, epoch));
    Ok(epoch)
}
