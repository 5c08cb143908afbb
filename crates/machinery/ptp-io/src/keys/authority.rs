//! Authority that signs the list of valid keys and of permitted grandmasters.

use std::path::{Path, PathBuf};

use data_encoding::HEXLOWER;
use serde::{Deserialize, Serialize};
use timeloom_ptp::security::{PublicKey, SecretKey};
use timeloom_wire::tlv::Suite;

use super::file::{Kind, from_hex, read, write};
use super::node::PublicFile;
use super::ring::{EpochRule, MemberFile, RingFile};
use crate::{KernelRandom, PtpError};

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct AuthorityFile {
    secret: String,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct AuthorityPublic {
    pub(super) key: String,
}

/// Creates `authority.key` and `authority.pub` in `directory`.
///
/// # Errors
/// Fails if one of the files exists already.
pub fn make_authority(directory: &Path) -> Result<(), PtpError> {
    std::fs::create_dir_all(directory).map_err(PtpError::file(directory))?;
    let path = directory.join("authority.key");
    if path.exists() {
        return Err(PtpError::usage(format!(
            "{} exists, and every key ring depends on it",
            path.display()
        )));
    }
    let octets = KernelRandom::open()?.key();
    let public = SecretKey::from_random(Suite::Ed25519, &octets).public();
    let file = AuthorityFile {
        secret: HEXLOWER.encode(&octets),
    };
    write(
        &path,
        Kind::Secret,
        "Secret key of an authority. Keep it off the clocks.",
        &file,
    )?;
    let public = AuthorityPublic {
        key: HEXLOWER.encode(&public.to_bytes()),
    };
    write(
        &directory.join("authority.pub"),
        Kind::Public,
        "Authority that signs the key rings of the domain.",
        &public,
    )
}

impl AuthorityPublic {
    /// Returns the public key; `None` if the file does not contain a valid one.
    pub(super) fn key(&self) -> Option<PublicKey> {
        from_hex(&self.key).and_then(|bytes| PublicKey::from_bytes(Suite::Ed25519, &bytes))
    }
}

pub(super) fn public_of(path: &Path) -> Result<PublicKey, PtpError> {
    let file: AuthorityPublic = read(path, Kind::Public)?;
    file.key()
        .ok_or_else(|| PtpError::usage(format!("{} holds no valid key", path.display())))
}

/// Parameters of a signing operation.
#[derive(Clone, Debug, Default)]
pub struct SignRequest {
    /// Path of `authority.key`.
    pub authority: PathBuf,
    /// Path of the ring file. It is updated if it exists, and created otherwise.
    pub ring: PathBuf,
    /// Paths of public key files whose keys are added.
    pub publics: Vec<PathBuf>,
    /// Names or clock identities of further permitted grandmasters.
    pub grandmasters: Vec<String>,
    /// Epochs whose keys are removed.
    pub retire: Vec<u8>,
    /// Epoch with which clocks sign from now on. If absent, it stays as in the ring; a new ring has
    /// 1.
    pub signing_epoch: Option<u8>,
    /// End of the signing epoch, in seconds since 1970.
    pub not_after_s: Option<i64>,
}

/// Signs the changed ring with the next serial number, writes it, and returns it.
///
/// # Errors
/// Fails if a proof is invalid, a grandmaster is unknown, or an epoch has no keys.
pub fn sign_ring(request: &SignRequest) -> Result<RingFile, PtpError> {
    let file: AuthorityFile = read(&request.authority, Kind::Secret)?;
    let octets: Option<[u8; 32]> = from_hex(&file.secret).and_then(|octets| octets.try_into().ok());
    let octets = octets.ok_or_else(|| PtpError::usage("the authority's secret is damaged"))?;
    let secret = SecretKey::from_random(Suite::Ed25519, &octets);
    let mut ring = if request.ring.exists() {
        let ring = RingFile::read(&request.ring)?;
        if !ring.is_signed_by(&secret.public()) {
            return Err(PtpError::usage(format!(
                "{} is another authority's, or was changed",
                request.ring.display()
            )));
        }
        ring
    } else {
        RingFile {
            serial: 0,
            signing_epoch: 1,
            signature: String::new(),
            epochs: Vec::new(),
            members: Vec::new(),
        }
    };
    ring.serial += 1;
    for path in &request.publics {
        let public: PublicFile = read(path, Kind::Public)?;
        public
            .members
            .into_iter()
            .for_each(|member| take(&mut ring, member));
    }
    ring.members
        .retain(|member| !request.retire.contains(&member.epoch));
    ring.epochs
        .retain(|rule| !request.retire.contains(&rule.epoch));
    for wanted in &request.grandmasters {
        let mut found = false;
        for member in ring
            .members
            .iter_mut()
            .filter(|member| member.name == *wanted || member.clock == *wanted)
        {
            (found, member.grandmaster) = (true, true);
        }
        if !found {
            return Err(PtpError::usage(format!("the ring has no node `{wanted}`")));
        }
    }
    ring.signing_epoch = request.signing_epoch.unwrap_or(ring.signing_epoch);
    let signing = ring.signing_epoch;
    let rule = ring.epochs.iter_mut().find(|rule| rule.epoch == signing);
    let rule = rule.ok_or_else(|| {
        PtpError::usage(format!(
            "no node has a key of the signing epoch, epoch {signing}"
        ))
    })?;
    rule.not_after_s = request.not_after_s.or(rule.not_after_s);
    // All proofs are checked before the authority signs.
    ring.key_ring(0)?;
    ring.sign(&secret);
    write(
        &request.ring,
        Kind::Public,
        "Keys of a PTP domain, signed by its authority.",
        &ring,
    )?;
    Ok(ring)
}

/// Adds a key to the ring. A clock keeps its index and its permission to be grandmaster across
/// epochs.
fn take(ring: &mut RingFile, mut member: MemberFile) {
    if ring
        .members
        .iter()
        .any(|of| of.clock == member.clock && of.epoch == member.epoch)
    {
        return;
    }
    let known = ring.members.iter().find(|of| of.clock == member.clock);
    member.index = match known {
        Some(known) => known.index,
        None => ring
            .members
            .iter()
            .map(|of| of.index + 1)
            .max()
            .unwrap_or(1),
    };
    member.grandmaster = known.is_some_and(|known| known.grandmaster);
    if !ring.epochs.iter().any(|rule| rule.epoch == member.epoch) {
        ring.epochs.push(EpochRule {
            epoch: member.epoch,
            not_after_s: None,
        });
    }
    ring.members.push(member);
}
