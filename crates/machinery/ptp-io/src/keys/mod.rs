//! Keys: a clock's own keys, the keys that it trusts, and the authority that signs those.
//!
//! ```text
//! DIR/node.key        this clock's secrets, one per epoch; mode 0600
//! DIR/node.pub        their public keys, with proofs of possession
//! DIR/authority.pub   public key of the authority that signs the ring
//! DIR/ring.toml       public keys of all clocks, signed by the authority
//! DIR/once.N.ledger   bls-once: what the key of epoch N may have signed; once.lock
//! ```
//!
//! In addition, [`GroupFile`] contains the single key of a group, for the AUTHENTICATION TLV of
//! IEEE 1588.
//!
//! An operator creates an authority once, lets every clock create its own key (secrets never leave
//! the clock), and signs the ring of all public keys. At the start and at each reload a clock
//! checks the file permissions, the authority's signature, that the ring is not older than the last
//! one, every proof, its own entry, and the dates of the epochs. Invalid files are refused with the
//! reason. A clock never continues without keys instead.

mod authority;
mod export;
mod file;
pub(crate) mod fuzzing;
mod group;
mod ledger;
mod load;
mod node;
mod ring;
#[cfg(test)]
mod tests;

pub use authority::{SignRequest, make_authority, sign_ring};
pub use export::{ExportedClock, ExportedKeys};
pub use file::suite_name;
pub use group::GroupFile;
pub(crate) use ledger::{FileLedger, KeyLock};
pub use load::{KeyDirectory, LoadedKeys};
pub use node::{make_node, rotate};
pub use ring::{EpochRule, MemberFile, RingFile};
