//! Ring: the public keys and epochs of all clocks, with the authority's signature.

use std::path::Path;

use data_encoding::HEXLOWER;
use serde::{Deserialize, Serialize};
use timeloom_ptp::security::{KeyError, KeyRing, Member, PublicKey};
use timeloom_wire::ClockIdentity;
use timeloom_wire::tlv::Suite;

use super::file::{Kind, from_hex, parse_clock, read, suite_named};
use crate::PtpError;

/// Public key of one clock for one epoch. `node.pub` consists of such entries.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MemberFile {
    /// Readable name of the clock.
    pub name: String,
    /// Clock identity, as text.
    pub clock: String,
    /// Index of the clock in the ring, by which compact entries of a signature chain name it.
    #[serde(default)]
    pub index: u16,
    /// Epoch of the key.
    pub epoch: u8,
    /// Signature suite: `ed25519`, `bls` or `bls-once`.
    pub suite: String,
    /// Public key, in hexadecimal digits.
    pub key: String,
    /// Proof that the clock has the secret key, in hexadecimal digits.
    pub proof: String,
    /// True if the authority permits the clock to be grandmaster.
    #[serde(default)]
    pub grandmaster: bool,
}

/// Validity of an epoch, in seconds since 1970.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct EpochRule {
    /// Number of the epoch.
    pub epoch: u8,
    /// Last second at which the epoch is valid; absent if there is no limit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub not_after_s: Option<i64>,
}

/// Content of `ring.toml`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RingFile {
    /// Serial number, which grows with every signature. A clock refuses a ring with a lower number
    /// than its last one.
    pub serial: u64,
    /// Epoch with which clocks sign.
    pub signing_epoch: u8,
    /// Signature of the authority over all other fields, in hexadecimal digits.
    #[serde(default)]
    pub signature: String,
    /// Epochs whose keys are valid.
    #[serde(default)]
    pub epochs: Vec<EpochRule>,
    /// Public keys of all clocks.
    #[serde(default)]
    pub members: Vec<MemberFile>,
}

impl MemberFile {
    /// Returns the clock identity.
    ///
    /// # Errors
    /// Fails if the text is not a valid identity.
    pub fn identity(&self) -> Result<ClockIdentity, PtpError> {
        parse_clock(&self.clock).ok_or_else(|| {
            PtpError::usage(format!(
                "`{}` is not a clock identity: write 16 hexadecimal digits",
                self.clock
            ))
        })
    }

    pub(super) fn suite(&self) -> Result<Suite, PtpError> {
        suite_named(&self.suite).ok_or_else(|| {
            PtpError::usage(format!(
                "`{}` is not a suite; there are ed25519, bls and bls-once",
                self.suite
            ))
        })
    }

    /// Decodes the key and its proof, and checks their form.
    pub(super) fn member(&self) -> Result<(Member, Vec<u8>), PtpError> {
        let (clock, suite) = (self.identity()?, self.suite()?);
        let bad =
            |what: &str| PtpError::usage(format!("{} (epoch {}): {what}", self.name, self.epoch));
        let key = from_hex(&self.key)
            .and_then(|bytes| PublicKey::from_bytes(suite, &bytes))
            .ok_or_else(|| bad("the public key is not a valid one"))?;
        let proof = from_hex(&self.proof)
            .ok_or_else(|| bad("the proof of possession is not hexadecimal"))?;
        let member = Member {
            clock,
            index: self.index,
            epoch: self.epoch,
            key,
            grandmaster: self.grandmaster,
        };
        Ok((member, proof))
    }
}

impl RingFile {
    pub(super) fn read(path: &Path) -> Result<Self, PtpError> {
        read(path, Kind::Public)
    }

    /// Returns the text that the authority signs. It contains every field, each preceded by its
    /// length.
    pub(super) fn text(&self) -> Vec<u8> {
        let mut text = b"TIMELOOM-RING-1".to_vec();
        let mut push = |field: &[u8]| {
            text.extend_from_slice(&(field.len() as u32).to_be_bytes());
            text.extend_from_slice(field);
        };
        push(&self.serial.to_be_bytes());
        push(&[self.signing_epoch]);
        push(&(self.epochs.len() as u32).to_be_bytes());
        for rule in &self.epochs {
            push(&[rule.epoch]);
            push(&rule.not_after_s.unwrap_or(i64::MAX).to_be_bytes());
        }
        push(&(self.members.len() as u32).to_be_bytes());
        for member in &self.members {
            for field in [
                &member.name,
                &member.clock,
                &member.suite,
                &member.key,
                &member.proof,
            ] {
                push(field.as_bytes());
            }
            push(&member.index.to_be_bytes());
            push(&[member.epoch, u8::from(member.grandmaster)]);
        }
        text
    }

    /// Returns true if `epoch` is valid at `now_s`, in seconds since 1970.
    pub(super) fn is_current(&self, epoch: u8, now_s: i64) -> bool {
        self.epochs
            .iter()
            .any(|rule| rule.epoch == epoch && rule.not_after_s.is_none_or(|end| now_s <= end))
    }

    /// Checks every proof, and returns the ring in the form that clocks use, with the epochs that
    /// are valid at `now_s`.
    pub(super) fn key_ring(&self, now_s: i64) -> Result<KeyRing, PtpError> {
        let mut ring = KeyRing::default();
        for file in self
            .members
            .iter()
            .filter(|member| self.is_current(member.epoch, now_s))
        {
            let (member, proof) = file.member()?;
            ring.insert(member, &proof).map_err(|error| {
                PtpError::usage(format!(
                    "{} (epoch {}): {}",
                    file.name,
                    file.epoch,
                    match error {
                        KeyError::Proof => "the proof of possession does not hold",
                        KeyError::Index =>
                            "its index belongs to another clock or is too large, or it has two \
                             indices",
                        KeyError::Twice => "it has two keys of one epoch",
                        KeyError::Shared => "its key belongs to another node or to another epoch",
                    }
                ))
            })?;
        }
        Ok(ring)
    }

    /// Returns the epochs that have an end, each with its end in seconds since 1970.
    pub(super) fn ends(&self) -> Vec<(u8, i64)> {
        self.epochs
            .iter()
            .filter_map(|rule| Some((rule.epoch, rule.not_after_s?)))
            .collect()
    }

    pub(super) fn sign(&mut self, secret: &timeloom_ptp::security::SecretKey) {
        self.signature = HEXLOWER.encode(&secret.sign(&self.text()));
    }

    pub(super) fn is_signed_by(&self, authority: &PublicKey) -> bool {
        from_hex(&self.signature)
            .is_some_and(|signature| authority.verify(&self.text(), &signature))
    }
}
