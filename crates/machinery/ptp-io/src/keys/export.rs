//! Key directories for real clocks among simulated ones, whose keys are all derived from one seed.
//!
//! Such keys have no value outside of the simulation.

use std::path::Path;

use data_encoding::HEXLOWER;
use timeloom_ptp::security::SecretKey;
use timeloom_wire::ClockIdentity;
use timeloom_wire::tlv::Suite;

use super::authority::AuthorityPublic;
use super::file::{Kind, suite_name, write};
use super::ledger;
use super::node::{NodeFile, SecretFile};
use super::ring::{EpochRule, MemberFile, RingFile};
use crate::PtpError;

/// Clock with its secret key.
#[derive(Clone, Debug)]
pub struct ExportedClock {
    /// Readable name of the clock.
    pub name: String,
    /// Identity of the clock.
    pub clock: ClockIdentity,
    /// Index of the clock in the ring.
    pub index: u16,
    /// Octets from which the key is derived.
    pub octets: [u8; 32],
    /// Number of the clock's ports.
    pub ports: u8,
    /// True if the clock may be grandmaster.
    pub grandmaster: bool,
}

/// Keys of all clocks of a domain.
#[derive(Clone, Debug)]
pub struct ExportedKeys {
    /// Signature suite of all keys.
    pub suite: Suite,
    /// Number of the only epoch.
    pub epoch: u8,
    /// Octets from which the authority's key is derived.
    pub authority: [u8; 32],
    /// All clocks.
    pub clocks: Vec<ExportedClock>,
}

impl ExportedKeys {
    /// Writes the key directory of the clock `own`: its secret key, and the ring of all public keys.
    ///
    /// # Errors
    /// Fails if a file cannot be written.
    pub fn write(&self, directory: &Path, own: &ExportedClock) -> Result<(), PtpError> {
        let authority = SecretKey::from_random(Suite::Ed25519, &self.authority);
        let mut ring = RingFile {
            serial: 1,
            signing_epoch: self.epoch,
            signature: String::new(),
            epochs: vec![EpochRule {
                epoch: self.epoch,
                not_after_s: None,
            }],
            members: self.clocks.iter().map(|clock| self.member(clock)).collect(),
        };
        ring.sign(&authority);
        let with_ports = self.suite == Suite::BlsOnce;
        let node = NodeFile {
            name: own.name.clone(),
            clock: own.clock.to_string(),
            secrets: vec![SecretFile {
                epoch: self.epoch,
                suite: suite_name(self.suite).to_owned(),
                secret: HEXLOWER.encode(&own.octets),
                ports: with_ports.then_some(own.ports),
            }],
        };
        if with_ports {
            ledger::make(directory, self.epoch)?;
        }
        let header = "Secret key of a PTP clock of one simulation.";
        write(&directory.join("node.key"), Kind::Secret, header, &node)?;
        let header = "Keys of the PTP clocks of one simulation.";
        write(&directory.join("ring.toml"), Kind::Public, header, &ring)?;
        let public = AuthorityPublic {
            key: HEXLOWER.encode(&authority.public().to_bytes()),
        };
        let header = "Authority of one simulation.";
        write(
            &directory.join("authority.pub"),
            Kind::Public,
            header,
            &public,
        )
    }

    fn member(&self, clock: &ExportedClock) -> MemberFile {
        let secret = SecretKey::with_ports(self.suite, &clock.octets, clock.ports);
        MemberFile {
            name: clock.name.clone(),
            clock: clock.clock.to_string(),
            index: clock.index,
            epoch: self.epoch,
            suite: suite_name(self.suite).to_owned(),
            key: HEXLOWER.encode(&secret.public().to_bytes()),
            proof: HEXLOWER.encode(&secret.prove()),
            grandmaster: clock.grandmaster,
        }
    }
}
