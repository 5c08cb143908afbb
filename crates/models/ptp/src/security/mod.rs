//! Signatures by which every clock on the path (hop) authenticates its own correction.
//!
//! One TLV in a Follow_Up contains the signed contributions of the grandmaster and of each
//! transparent clock. Each signer binds the running hash of all earlier parts, its own
//! contribution, its ports, and the clocks before and after it. So no part can be removed,
//! inserted, reordered or replayed. The Sync itself does not become longer: the `originTimestamp`
//! of a two-step Sync, which has no other use, contains a nonce that the grandmaster signs in the
//! Follow_Up.
//!
//! # Localisation of a failure
//!
//! Every honest signer signs what it *received*. A change at one place invalidates the signatures
//! of all clocks that signed before that place and of none after it. The change therefore happened
//! between the last invalid signature and the first valid one, that is, on one link or in one of
//! the two clocks at its ends ([`Suspect`]). The Ed25519 chain also hashes signatures, so that an
//! attacker cannot move this place by corrupting single signatures. An aggregate cannot be checked
//! signature by signature. There, the nearest clock downstream that verifies (`watch`) reports the
//! change by restarting the chain.
//!
//! # Attacks that cryptography cannot detect
//!
//! - A clock lies about its own residence time or the delay of its own link, within the bounds of
//!   [`Limits`].
//! - A Sync is delayed on a wire, or all messages are delayed symmetrically from the start, which
//!   also affects the peer delay. Changes of a delay are detected by [`DelayWatch`].
//! - Two neighbours collude: to other clocks they are one hop.
//! - The responsible part of a link (either end, or the wire itself) is not known.
//! - Messages are lost: jamming looks like silence, and the slave must then hold over.

mod announce;
mod budget;
mod chain;
mod delay_watch;
mod extend;
mod failure;
mod group;
mod hops;
mod keyring;
mod keys;
mod nonces;
mod once;
mod peer;
mod policy;
mod replay;
mod secondary;
mod sign_job;
mod signer;
#[cfg(test)]
mod tests;
mod text;
mod verify;

pub use announce::{sign_announce, verify_announce};
pub use delay_watch::DelayWatch;
pub use extend::Hop;
pub use failure::{Failure, Reason, Suspect};
pub use group::{GroupError, GroupKey};
pub use keyring::{KeyError, KeyRing, Member};
pub use keys::{PublicKey, SecretKey};
pub use once::{Ledger, MAX_PORTS, MemoryLedger, Moment, OncePublic, OnceSecret, Stream, port_of};
pub use peer::{PeerFacts, sign_peer, verify_peer};
pub use policy::{Limits, Policy};
pub(crate) use replay::DUE;
pub use replay::{Freshness, ReplayWindow};
pub use secondary::{Role, Statement};
pub use sign_job::{SignJob, SigningResult};
pub use signer::{Security, SyncFacts};
pub use verify::{Verdict, VerifiedChain, VerifyJob};

pub(crate) use budget::{Admission, Budget};
pub(crate) use chain::sequence_of;
pub(crate) use hops::hop_stated;
pub(crate) use secondary::{Collector, Outcome, Received, view_of};

/// Organisation identifier of the signed TLV. It is experimental, since the project owns no OUI,
/// and locally administered, so that it belongs to no organisation.
pub const ORGANIZATION: [u8; 3] = [0x02, 0x54, 0x4c];
