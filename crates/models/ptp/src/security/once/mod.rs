//! Aggregate signatures that are mostly computed before the text is known.
//!
//! An ordinary BLS signature is a secret times the hash of the text, so nothing can be computed in
//! advance. In this scheme a signer signs at most once for each Sync, and the *name* of the Sync
//! (grandmaster, domain, epoch, 48-bit number: a [`SyncName`] `t`) is known long before. Let `A =
//! H1(t)` and `B = H2(t)` be two points of G1 with unknown discrete logarithms. Signer `i` with
//! secret `x_i` and public key `X_i = x_i·g2` signs
//!
//! ```text
//! s_i = x_i·A + h_i·(x_i·B),   h_i = H(t, text_i), a number below the group's order r
//! ```
//!
//! `P = x_i·A` and `Q = x_i·B` are prepared, with a table of multiples of `Q`. The sum `S` over all
//! signers is checked with three pairings, independently of their number:
//!
//! ```text
//! e(S, g2) = e(A, sum X_i) · e(B, sum h_i·X_i)
//! ```
//!
//! This is the synchronized aggregate signature of Lee, Lee and Yung (Financial Cryptography 2013)
//! over an asymmetric pairing.
//!
//! # Security argument and its conditions
//!
//! Assume a forger of a signature of an honest `X`, for a text that `X` did not sign under `t`. It
//! can be used to compute `a·b·g1` from `a·g1`, `a·g2` and `b·g1`. To do so, program the hashes
//! such that, at the attacked `t*`, `A = α·g1 + β·b·g1` and `B = α'·g1 + β'·b·g1` with secret
//! random numbers. The one signature that the honest key makes under a `t` can be computed without
//! `a` if the hash `h` of its text was chosen so that `β + h·β' = 0`. A second signature could not
//! be computed, but the key makes no second one. At any other `h`, the forger's sum contains
//! `a·b·(β + h·β')·g1`, from which the shares of all other keys are subtracted. The argument has
//! these conditions:
//!
//! - **Once.** Two signatures of one key under one `t` reveal `Q = (s − s')/(h − h')` and `P`, and
//!   with them any signature of that key for that `t`. A [`Ticket`] is made once per key and moment
//!   and is consumed by its use; see `stock`, also for restarts.
//! - **Wide.** `h` has the full width of the group's order. With a short `h`, an attacker could
//!   search for texts whose `h` satisfy the required relation.
//! - **Two proofs of possession** per key, one under each of two hashes. Subtracting the share
//!   `x·(α + h·α')·g1 + x·(β + h·β')·b·g1` of a registered key requires `x·g1` and `x·b·g1`. The
//!   proofs give both: the reduction answers the one hash with multiples of `g1`, the other with
//!   multiples of `b·g1`. With one BLS proof this would be an assumption.
//! - **A separate key per node and egress port**, none twice in a ring, and none twice in a chain.
//!   A Sync that leaves on three ports is signed under the same `t` three times, by three keys.
//! - **Domains.** `H1`, `H2`, `H`, the two proofs and ordinary signatures hash under separate tags.
//!   Ordinary signatures (Announce, peer delay, and any signature for which nothing is prepared)
//!   are made by a further key.
//!
//! A hop without prepared data signs with its ordinary key, into the same sum. The verifier sees
//! this in the entry and computes one more pairing. In the reduction above, such shares are
//! `x·H(text)` with a known multiple of `g1`, and are subtracted by means of the proof of
//! possession. So there is never a reason to use a moment twice, nor to leave a signature out.
//!
//! The received sum is checked to be on the curve, but not in the group; the verifier checks the
//! group. Adding to a point of the wrong group yields the same sum, off by that point. This reveals
//! to the sender of that point nothing that is not visible in any sum: the difference between
//! output and input is this hop's signature, which is public.

mod challenge;
mod keys;
mod stock;
mod table;
#[cfg(test)]
mod tests;
mod ticket;
mod verify;

pub use keys::{OncePublic, OnceSecret};
pub use stock::{Ledger, MemoryLedger};
pub(super) use ticket::Ticket;
pub(super) use verify::{Share, verify};

use timeloom_wire::{Header, PortIdentity};

use super::text::push_port;

/// Sequence of Syncs of one grandmaster, within which each 48-bit number occurs once.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Stream {
    /// Port that sends the Syncs.
    pub source: PortIdentity,
    /// `sdoId` of the Syncs.
    pub sdo_id: u16,
    /// `domainNumber` of the Syncs.
    pub domain: u8,
    /// Epoch (generation) of the keys.
    pub epoch: u8,
}

/// Name of one Sync. A key signs at most once for each name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct SyncName {
    /// Sequence of Syncs to which the Sync belongs.
    pub stream: Stream,
    /// 48-bit sequence number.
    pub sequence48: u64,
}

impl SyncName {
    /// Returns the name of the Sync with number `sequence48` from the sender of `header`.
    pub const fn new(header: &Header, epoch: u8, sequence48: u64) -> Self {
        Self {
            stream: Stream {
                source: header.source,
                sdo_id: header.sdo_id,
                domain: header.domain,
                epoch,
            },
            sequence48,
        }
    }

    /// Returns the octets of `t` that are hashed.
    fn text(&self) -> Vec<u8> {
        let mut text = b"PSIG1-ON".to_vec();
        push_port(&mut text, self.stream.source);
        text.extend_from_slice(&self.stream.sdo_id.to_be_bytes());
        text.push(self.stream.domain);
        text.push(self.stream.epoch);
        text.extend_from_slice(&self.sequence48.to_be_bytes());
        text
    }
}

/// Domain separation tags (RFC 9380). Under the first, `t` is hashed to `A`, and under the second
/// to `B`; under the third, `t` and a text are hashed to `h`.
const TAG_A: &[u8] = b"TIMELOOM-ONCE-A_BLS12381G1_XMD:SHA-256_SSWU_RO_";
const TAG_B: &[u8] = b"TIMELOOM-ONCE-B_BLS12381G1_XMD:SHA-256_SSWU_RO_";
const TAG_H: &[u8] = b"TIMELOOM-ONCE-H_BLS12381_XMD:SHA-256_";

/// Domain separation tags of the two proofs of possession.
const PROOFS: [&[u8]; 2] = [
    b"TIMELOOM-ONCE-P0_BLS12381G1_XMD:SHA-256_SSWU_RO_",
    b"TIMELOOM-ONCE-P1_BLS12381G1_XMD:SHA-256_SSWU_RO_",
];

/// Greatest port number in a compact entry, and therefore the greatest number of keys of one clock.
pub const MAX_PORTS: u8 = 63;

/// Flag in the octet of the egress port that marks a signature by the ordinary key.
const ORDINARY: u8 = 0x80;

/// Encodes the egress port of a Sync for an entry, together with the kind of the signing key.
pub(super) fn marked_port(egress: u16, compact: bool, prepared: bool) -> u8 {
    let port = u8::try_from(egress.min(0x7f)).unwrap_or(0x7f);
    match (prepared, compact) {
        (true, _) => port,
        (false, true) => 0,
        (false, false) => port | ORDINARY,
    }
}

/// Returns the port whose key signs; `None` for the ordinary key.
pub(super) const fn key_port(marked: u8) -> Option<u8> {
    if marked == 0 || marked & ORDINARY != 0 {
        None
    } else {
        Some(marked)
    }
}

/// Returns the port number in an entry of this suite, for display.
pub const fn port_of(marked: u8) -> u8 {
    marked & !ORDINARY
}
