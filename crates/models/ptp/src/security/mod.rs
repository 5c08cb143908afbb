//! Signatures by which every hop vouches for its own correction.
//!
//! One TLV on Follow_Up carries the signed contributions of the grandmaster and each transparent
//! clock. Each signer binds the running hash of all before it, its own contribution, its ports, and
//! the clocks before and after it, so that nothing can be removed, spliced, reordered or replayed.
//! The Sync itself does not grow: the two-step `originTimestamp`, which is otherwise unused,
//! carries a nonce that the grandmaster signs in the Follow_Up.
//!
//! # Localisation of a failure
//!
//! Every honest signer signs what it *received*. A change at one place breaks the signatures of all
//! clocks that signed before that place and of none after. The boundary between the last invalid
//! signature and the first valid one is therefore where it happened: one link and the two clocks at
//! its ends ([`Suspect`]). The Ed25519 chain also hashes signatures, so that a rogue cannot move
//! the boundary by corrupting single ones. An aggregate cannot be taken apart; there the nearest
//! clock downstream that verifies (`watch`) reports it, by restarting the chain.
//!
//! # Attacks that cryptography cannot detect
//!
//! - A clock that lies about its own residence or the delay of its own link, within the bounds of
//!   [`Limits`].
//! - A delay of Sync on a wire, and any symmetric delay that also affects peer delay from the
//!   start. Changes are detected by [`DelayWatch`].
//! - Two neighbours that collude: to others they are one hop.
//! - Which of the two ends of a link, or the wire itself, is responsible.
//! - Loss of messages: jamming is seen as silence, which must lead to holdover.

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
pub use sign_job::{SignJob, Signed};
pub use signer::{Security, SyncFacts};
pub use verify::{Accepted, Verdict, VerifyJob};

pub(crate) use budget::{Admission, Budget};
pub(crate) use chain::sequence_of;
pub(crate) use hops::hop_stated;
pub(crate) use secondary::{Collector, Outcome, Received, view_of};

/// Organisation identifier of the signed TLV: experimental, since the project owns no OUI, and
/// locally administered, so that it belongs to no organisation.
pub const ORGANIZATION: [u8; 3] = [0x02, 0x54, 0x4c];
