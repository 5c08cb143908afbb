//! Verification of a sum of signatures.

use blst::min_sig::{AggregatePublicKey, PublicKey, Signature};
use blst::{BLST_ERROR, MultiPoint, Pairing, blst_fp12, blst_p1_affine, blst_p2_affine};

use super::challenge::challenge;
use super::{SyncName, TAG_A, TAG_B};

/// Share of one signer in a sum.
pub(in crate::security) struct Share<'a> {
    /// Key that the entry names.
    pub(in crate::security) key: &'a PublicKey,
    /// True for a key that signs once per Sync, false for an ordinary key.
    pub(in crate::security) is_once: bool,
    pub(in crate::security) text: &'a [u8],
}

/// Returns true if `signature` is the sum of all shares; ordinary shares were made under `tag`. No
/// key may occur twice: the caller ensures this by checking the signers' identities.
pub(in crate::security) fn verify(
    signature: &[u8],
    moment: &SyncName,
    shares: &[Share<'_>],
    tag: &[u8],
) -> bool {
    verified(signature, moment, shares, tag).unwrap_or(false)
}

fn verified(signature: &[u8], moment: &SyncName, shares: &[Share<'_>], tag: &[u8]) -> Option<bool> {
    let signature = Signature::from_bytes(signature).ok()?;
    // Check that the point is in the group and is not the neutral element.
    signature.validate(true).ok()?;
    let mut all = Pairing::new(true, tag);
    for share in shares.iter().filter(|share| !share.is_once) {
        pair(&mut all, share.key, share.text)?;
    }
    all.commit();
    let once: Vec<_> = shares.iter().filter(|share| share.is_once).collect();
    if !once.is_empty() {
        let keys: Vec<PublicKey> = once.iter().map(|share| *share.key).collect();
        let mut numbers = Vec::with_capacity(32 * once.len());
        for share in &once {
            numbers.extend_from_slice(&challenge(moment, share.text)?);
        }
        let text = moment.text();
        for (tag, key) in [
            (TAG_A, keys.as_slice().add()),
            (TAG_B, keys.mult(&numbers, ORDER_BITS)),
        ] {
            let mut one = Pairing::new(true, tag);
            pair(&mut one, &to_key(&key), &text)?;
            one.commit();
            (all.merge(&one) == BLST_ERROR::BLST_SUCCESS).then_some(())?;
        }
    } else if shares.is_empty() {
        return None;
    }
    let mut right = blst_fp12::default();
    Pairing::aggregated(&mut right, &blst_p1_affine::from(signature));
    Some(all.finalverify(Some(&right)))
}

/// Number of bits of the group's order.
const ORDER_BITS: usize = 255;

fn to_key(sum: &AggregatePublicKey) -> PublicKey {
    sum.to_public_key()
}

/// Adds the pairing of the hash of `text` with `key`. Returns `None` if `key` is the neutral
/// element, which is the sum of keys that cancel each other.
fn pair(pairing: &mut Pairing<'_>, key: &PublicKey, text: &[u8]) -> Option<()> {
    let key: &blst_p2_affine = key.into();
    let outcome = pairing.aggregate(key, false, &(), false, text, &[]);
    (outcome == BLST_ERROR::BLST_SUCCESS).then_some(())
}
