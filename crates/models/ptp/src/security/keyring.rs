//! Clocks that may sign, and their public keys.

use std::collections::HashMap;

use timeloom_wire::ClockIdentity;
use timeloom_wire::tlv::{INDEX_BESIDE_PORT, Signer, Suite};

use super::PublicKey;

/// Key of one clock in one epoch.
#[derive(Clone, Debug)]
pub struct RingMember {
    /// Identity of the clock.
    pub clock: ClockIdentity,
    /// Index of the clock in the key file, which compact entries contain.
    pub index: u16,
    /// Epoch (generation) of the key.
    pub epoch: u8,
    /// Public key of the clock.
    pub key: PublicKey,
    /// True if the clock may be grandmaster.
    pub grandmaster: bool,
}

/// Reasons for which a key is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KeyError {
    /// The proof of possession is invalid.
    Proof,
    /// Another clock has this index, this clock has another index, or the index is too large for
    /// the compact entries of the suite.
    Index,
    /// The clock already has a key of this epoch.
    Twice,
    /// Another clock already has this key.
    Shared,
}

impl std::fmt::Display for KeyError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Proof => "the proof of possession does not hold",
            Self::Index => "another clock has this index, or the index is too large",
            Self::Twice => "the clock has a key of this epoch already",
            Self::Shared => "another clock has this very key",
        })
    }
}

/// Public keys of the clocks in a domain. Each owner has proved possession of the secret key.
#[derive(Clone, Debug, Default)]
pub struct KeyRing {
    members: HashMap<(ClockIdentity, u8), RingMember>,
    by_index: HashMap<u16, ClockIdentity>,
    epochs: Vec<u8>,
}

impl KeyRing {
    /// Adds `member` after checking its proof of possession. The key's epoch becomes valid.
    pub fn insert(&mut self, member: RingMember, proof: &[u8]) -> Result<(), KeyError> {
        if !member.key.verify_possession(proof) {
            return Err(KeyError::Proof);
        }
        let room = if member.key.suite() == Suite::BlsOnce {
            INDEX_BESIDE_PORT
        } else {
            u16::MAX
        };
        if member.index > room {
            return Err(KeyError::Index);
        }
        if *self.by_index.entry(member.index).or_insert(member.clock) != member.clock {
            return Err(KeyError::Index);
        }
        let place = (member.clock, member.epoch);
        if self.members.contains_key(&place) {
            return Err(KeyError::Twice);
        }
        let mut others = self.members.values();
        if others.any(|other| other.key.shares_a_key_with(&member.key)) {
            return Err(KeyError::Shared);
        }
        if !self.epochs.contains(&member.epoch) {
            self.epochs.push(member.epoch);
        }
        self.members.insert(place, member);
        Ok(())
    }

    /// Makes the keys of `epoch` invalid.
    pub fn retire(&mut self, epoch: u8) {
        self.epochs.retain(|valid| *valid != epoch);
        self.members.retain(|(_, of), _| *of != epoch);
    }

    /// Returns true if keys of `epoch` are in force.
    pub fn is_valid(&self, epoch: u8) -> bool {
        self.epochs.contains(&epoch)
    }

    /// Returns the key of `clock` in `epoch`; `None` if there is none.
    pub fn member(&self, clock: ClockIdentity, epoch: u8) -> Option<&RingMember> {
        self.members.get(&(clock, epoch))
    }

    /// Returns the identity of the clock in an entry; `None` if the index is unknown.
    pub fn resolve(&self, signer: Signer) -> Option<ClockIdentity> {
        match signer {
            Signer::Identity(clock) => Some(clock),
            Signer::Index(index) => self.by_index.get(&index).copied(),
        }
    }

    /// Returns true if `clock` has a key of any epoch. Such a clock must sign: an unsigned message
    /// from it is a violation, and not a message of a clock without keys.
    pub fn knows(&self, clock: ClockIdentity) -> bool {
        self.epochs
            .iter()
            .any(|epoch| self.members.contains_key(&(clock, *epoch)))
    }
}
