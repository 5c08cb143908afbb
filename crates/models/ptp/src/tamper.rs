//! Changes of a Follow_Up by an attacker on the path, for laboratories and simulations of attacks.
//! The changes need no key. Regular clocks never make them.

use timeloom_wire::message::{patch_correction, patch_length};
use timeloom_wire::{Header, MessageType, TimeInterval};

/// Change of a Follow_Up message after it was signed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tamper {
    /// Adds this to the correction.
    Correction(TimeInterval),
    /// Changes the `preciseOriginTimestamp` by 64 ns.
    Origin,
    /// Removes the signed TLV.
    Strip,
    /// Removes the last hop from the chain; its entries must be full ones.
    RemoveHop,
    /// Changes the epoch (generation) of the keys.
    Epoch,
}

impl Tamper {
    /// Applies the change to `message`, if it is a suitable Follow_Up. Returns true if it was
    /// changed.
    pub fn apply(self, message: &mut Vec<u8>) -> bool {
        let Ok((header, _)) = Header::parse(message) else {
            return false;
        };
        if header.message_type != MessageType::FollowUp || message.len() < usize::from(PLAIN) {
            return false;
        }
        let signed = message.len() > EPOCH;
        match self {
            Self::Correction(more) => {
                return patch_correction(message, header.correction + more).is_ok();
            }
            Self::Origin => message[ORIGIN_LAST] ^= 0x40,
            Self::Strip if signed => {
                message.truncate(usize::from(PLAIN));
                return patch_length(message, PLAIN).is_ok();
            }
            Self::RemoveHop => return remove_last_hop(message),
            Self::Epoch if signed => message[EPOCH] ^= 0x40,
            Self::Strip | Self::Epoch => return false,
        }
        true
    }
}

/// Length of a Follow_Up without TLVs, in octets.
const PLAIN: u16 = 44;
/// Offset of the last octet of `preciseOriginTimestamp`.
const ORIGIN_LAST: usize = 43;
/// Offsets in a message of the signed TLV's length.
const TLV_LENGTH: core::ops::Range<usize> = 46..48;
/// Offset in a message of the signed TLV's suite.
const SUITE: usize = 54;
/// Offset in a message of the signed TLV's key epoch.
const EPOCH: usize = 56;
/// Offset in a message of the signed TLV's number of hops.
const HOPS: usize = 57;

/// Removes the last entry of a chain with full entries; returns false if there is none.
fn remove_last_hop(bytes: &mut Vec<u8>) -> bool {
    let (Some(&suite), Some(&hops)) = (bytes.get(SUITE), bytes.get(HOPS)) else {
        return false;
    };
    // An aggregate signature is one signature at the end; other suites have one in each entry.
    let (end, each) = if suite & 0x0f == 1 {
        (bytes.len() - 48, 18)
    } else {
        (bytes.len(), 82)
    };
    if hops == 0 || end < each + HOPS {
        return false;
    }
    bytes.drain(end - each..end);
    bytes[HOPS] -= 1;
    let Ok(length) = u16::try_from(bytes.len()) else {
        return false;
    };
    bytes[TLV_LENGTH].copy_from_slice(&(length - 48).to_be_bytes());
    patch_length(bytes, length).is_ok()
}
