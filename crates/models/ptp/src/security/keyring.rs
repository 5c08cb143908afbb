//! Who may sign, and with what.

use std::collections::HashMap;

use timeloom_wire::ClockIdentity;
use timeloom_wire::tlv::{INDEX_BESIDE_PORT, Signer, Suite};

use super::PublicKey;

/// One clock's key of one epoch.
#[derive(Clone, Debug)]
pub struct Member {
    /// The clock.
    pub clock: ClockIdentity,
    /// Its place in the key file, for compact entries.
    pub index: u16,
    /// Generation of keys.
    pub epoch: u8,
    /// Its key.
    pub key: PublicKey,
    /// Whether it may be grandmaster.
    pub grandmaster: bool,
}

/// Why a member is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KeyError {
    /// The proof of possession does not hold.
    Proof,
    /// Another clock has this index, or this clock another index; or it is too
    /// large for compact entries of the suite.
    Index,
    /// The clock has a key of this epoch already.
    Twice,
    /// Somebody has this very key already.
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

/// The keys of a domain. Every key in it has proven possession.
#[derive(Clone, Debug, Default)]
pub struct KeyRing {
    members: HashMap<(ClockIdentity, u8), Member>,
    by_index: HashMap<u16, ClockIdentity>,
    epochs: Vec<u8>,
}

impl KeyRing {
    /// Takes `member` after checking its proof of possession. Its epoch becomes
    /// valid if it was not.
    pub fn insert(&mut self, member: Member, proof: &[u8]) -> Result<(), KeyError> {
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

    /// From now on keys of `epoch` count for nothing.
    pub fn retire(&mut self, epoch: u8) {
        self.epochs.retain(|valid| *valid != epoch);
        self.members.retain(|(_, of), _| *of != epoch);
    }

    /// Whether keys of `epoch` are in force.
    pub fn is_valid(&self, epoch: u8) -> bool {
        self.epochs.contains(&epoch)
    }

    /// The key of `clock` in `epoch`.
    pub fn member(&self, clock: ClockIdentity, epoch: u8) -> Option<&Member> {
        self.members.get(&(clock, epoch))
    }

    /// Whose entry it is.
    pub fn resolve(&self, signer: Signer) -> Option<ClockIdentity> {
        match signer {
            Signer::Identity(clock) => Some(clock),
            Signer::Index(index) => self.by_index.get(&index).copied(),
        }
    }

    /// Whether `clock` must sign, in any epoch: its messages without a
    /// signature are then a failure, never legacy.
    pub fn knows(&self, clock: ClockIdentity) -> bool {
        self.epochs
            .iter()
            .any(|epoch| self.members.contains_key(&(clock, *epoch)))
    }
}
