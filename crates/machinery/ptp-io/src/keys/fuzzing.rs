//! Fuzzing of key files, exported by [`crate::fuzzing`].

use timeloom_ptp::security::{PublicKey, SecretKey};
use timeloom_wire::tlv::Suite;

use super::authority::AuthorityPublic;
use super::file::parse;
use super::group::GroupFile;
use super::ledger::LedgerFile;
use super::node::{NodeFile, PublicFile};
use super::ring::RingFile;

/// Parses the text as each kind of key file. Checks that an unsigned ring is rejected, and that no
/// file makes a clock accept a key whose proof is invalid.
///
/// # Panics
/// Panics if one of these properties is violated.
pub fn key_file(text: &str) {
    if let Ok(node) = parse::<NodeFile>(text) {
        let _ = node.identity();
        for secret in &node.secrets {
            // Creating a BLS key takes milliseconds, so only Ed25519 keys are created. The suite's
            // name is checked before.
            if secret.suite == "ed25519" {
                let _ = secret.key();
            }
        }
    }
    if let Ok(public) = parse::<PublicFile>(text) {
        for member in &public.members {
            let _ = member.member();
        }
    }
    if let Ok(ring) = parse::<RingFile>(text) {
        assert!(
            !ring.is_signed_by(&authority()),
            "no authority signed {ring:?}"
        );
        let _ = (ring.key_ring(1_700_000_000), ring.ends());
    }
    if let Ok(group) = parse::<GroupFile>(text) {
        let _ = group.key();
    }
    if let Ok(public) = parse::<AuthorityPublic>(text) {
        let _ = public.key();
    }
    let _ = parse::<LedgerFile>(text);
}

/// Returns the public key of an authority whose secret occurs in none of these texts.
fn authority() -> PublicKey {
    SecretKey::from_random(Suite::Ed25519, &[0x5a; 32]).public()
}
