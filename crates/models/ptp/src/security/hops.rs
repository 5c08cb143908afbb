//! Contributions of the hops of a Follow_Up, and the trust in each.

use timeloom_wire::Message;
use timeloom_wire::tlv::{SignedTlv, Signer, Suite};

use super::once::port_of;
use super::{KeyRing, ORGANIZATION, Role, Statement, VerificationFailure};
use crate::{HopRecord, HopVerdict};

/// Returns the hops of a Follow_Up, judged by its `failure`; none if the TLV is unreadable.
pub(super) fn hops_of(
    message: &Message<'_>,
    ring: &KeyRing,
    failure: Option<&VerificationFailure>,
) -> Vec<HopRecord> {
    let signed = message
        .tlvs
        .iter()
        .find_map(|tlv| SignedTlv::parse(tlv, ORGANIZATION));
    let Some(Ok(tlv)) = signed else {
        return Vec::new();
    };
    let hops = tlv.entries().map(|(entry, _)| HopRecord {
        signer: entry.signer,
        clock: ring.resolve(entry.signer),
        ingress: entry.ingress_port,
        egress: match tlv.head.suite {
            Suite::BlsOnce => port_of(entry.egress_port),
            _ => entry.egress_port,
        },
        contribution: entry.contribution,
        verdict: HopVerdict::Holds,
    });
    let mut hops: Vec<_> = hops.collect();
    if let Some(failure) = failure {
        judge(&mut hops, failure);
    }
    hops
}

/// Returns the contribution that a statement reports; `None` for the grandmaster's statement.
pub(crate) fn hop_stated(statement: &Statement) -> Option<HopRecord> {
    let Role::Hop {
        ingress,
        egress,
        contribution,
        ..
    } = statement.role
    else {
        return None;
    };
    Some(HopRecord {
        signer: Signer::Identity(statement.clock),
        clock: Some(statement.clock),
        ingress,
        egress,
        contribution,
        verdict: HopVerdict::Holds,
    })
}

/// Sets the verdict of each hop. Every honest signer signs what it received, so hops downstream of
/// the broken link are trusted, and those upstream are unproven.
fn judge(hops: &mut [HopRecord], failure: &VerificationFailure) {
    let suspect = &failure.suspect;
    let before = hops
        .iter()
        .position(|hop| hop.clock == Some(suspect.before))
        .unwrap_or(hops.len());
    for (at, hop) in hops.iter_mut().enumerate() {
        hop.verdict = if hop.clock.is_some_and(|clock| suspect.names(clock)) {
            HopVerdict::Suspect
        } else if at < before {
            HopVerdict::Unproven
        } else {
            HopVerdict::Holds
        };
    }
}
