//! The scalar `h`, derived from the text of a signature.

use blst::blst_scalar;

use super::{SyncName, TAG_H};

/// Returns `H(t, text)`: 384 bits of SHA-256 (RFC 9380's `expand_message_xmd`), reduced modulo the
/// group's order, in little-endian octets. Returns `None` for zero, which does not occur in
/// practice.
pub(super) fn challenge(moment: &SyncName, text: &[u8]) -> Option<[u8; 32]> {
    let mut said = moment.text();
    said.extend_from_slice(text);
    blst_scalar::hash_to(&said, TAG_H).map(|scalar| scalar.b)
}
