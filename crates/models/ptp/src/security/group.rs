//! The standard's own method: a group key and an authentication code over the whole message (IEEE
//! 1588-2019, 16.14). It makes these clocks interoperable with linuxptp 4.3 and later.
//!
//! Every holder of the key can forge any message. This includes each transparent clock, which must
//! recompute the code after it has added to the correction. The other files of this module solve
//! that; the group key only excludes outsiders.
//!
//! The state machines do not process the code. Their driver applies [`GroupKey::protect`] to sent
//! messages and [`GroupKey::check`] to received ones. The format is that of linuxptp: immediate
//! processing, HMAC-SHA256-128, no optional fields, the correction covered (`allow_mutable 0`), the
//! TLV last and included in `messageLength`, and `minorVersionPTP` 1, without which linuxptp
//! ignores the TLV.

use hmac::{Hmac, Mac};
use sha2::Sha256;
use timeloom_wire::message::patch_length;
use timeloom_wire::tlv::{Authentication, TlvType, TlvWriter};
use timeloom_wire::{Header, Message};

/// A security association with a single key.
#[derive(Clone)]
pub struct GroupKey {
    /// `SPP`: number of the security policy.
    pub policy: u8,
    /// `keyID`: number of the key.
    pub key_id: u32,
    keyed: Hmac<Sha256>,
}

impl core::fmt::Debug for GroupKey {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        write!(f, "GroupKey({}, {})", self.policy, self.key_id)
    }
}

/// Reasons for which a message is not accepted as the group's.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum GroupError {
    /// The bytes are not a message.
    Malformed,
    /// The message has no AUTHENTICATION TLV at its end.
    Unprotected,
    /// The message has another policy or key, or unsupported fields.
    Association,
    /// The authentication code does not match the message.
    Code,
}

impl std::fmt::Display for GroupError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Malformed => "no message",
            Self::Unprotected => "no authentication TLV",
            Self::Association => "another policy or key",
            Self::Code => "the code is not the message's",
        })
    }
}

/// Length of the authentication code in octets: the left half of HMAC-SHA256.
const ICV: usize = 16;
/// Length in octets of the TLV before the code, including its type and length fields.
const FRONT: usize = 10;
/// `minorVersionPTP` of the edition that defines the TLV.
const MINOR_VERSION: u8 = 1;

impl GroupKey {
    /// Returns an association with a key of any length. More than 32 octets do not make HMAC-SHA256
    /// stronger.
    pub fn new(policy: u8, key_id: u32, key: &[u8]) -> Self {
        let keyed = Hmac::new_from_slice(key).expect("HMAC takes keys of any length");
        Self {
            policy,
            key_id,
            keyed,
        }
    }

    /// Returns the state of the HMAC after `bytes`.
    fn code(&self, bytes: &[u8]) -> Hmac<Sha256> {
        self.keyed.clone().chain_update(bytes)
    }

    /// Appends the TLV to `message`, at its `messageLength`, and sets `minorVersionPTP` to 1.
    /// Returns `None` if the input is not a message, or is too long with the TLV.
    pub fn protect(&self, message: &[u8]) -> Option<Vec<u8>> {
        let (_, rest) = Header::parse(message).ok()?;
        let length = Header::LENGTH + rest.len();
        let mut buffer = [0; FRONT + ICV];
        let tlv = Authentication {
            policy: self.policy,
            parameters: 0,
            key_id: self.key_id,
            rest: &[0; ICV],
        };
        let mut writer = TlvWriter::new(&mut buffer);
        writer
            .push(TlvType::AUTHENTICATION, |to| tlv.emit(to))
            .ok()?;
        let mut bytes = message.get(..length)?.to_vec();
        bytes.extend_from_slice(writer.finish().as_bytes());
        let whole = bytes.len();
        patch_length(&mut bytes, u16::try_from(whole).ok()?).ok()?;
        bytes[1] = MINOR_VERSION << 4 | bytes[1] & 0x0f;
        let code = self.code(&bytes[..whole - ICV]).finalize().into_bytes();
        bytes[whole - ICV..].copy_from_slice(&code[..ICV]);
        Some(bytes)
    }

    /// Checks the authentication code of `message`, and returns the message without the TLV.
    ///
    /// # Errors
    /// Fails with the reason; the message must not be used.
    pub fn check(&self, message: &[u8]) -> Result<Vec<u8>, GroupError> {
        let parsed = Message::parse(message).map_err(|_| GroupError::Malformed)?;
        let (_, rest) = Header::parse(message).map_err(|_| GroupError::Malformed)?;
        let length = Header::LENGTH + rest.len();
        let last = parsed.tlvs.iter().last();
        let last = last
            .filter(|tlv| tlv.kind == TlvType::AUTHENTICATION)
            .ok_or(GroupError::Unprotected)?;
        let tlv = Authentication::parse(last.value).map_err(|_| GroupError::Malformed)?;
        let code = tlv.icv().filter(|code| code.len() == ICV);
        let code = code.ok_or(GroupError::Association)?;
        if (tlv.policy, tlv.key_id) != (self.policy, self.key_id) {
            return Err(GroupError::Association);
        }
        self.code(&message[..length - ICV])
            .verify_truncated_left(code)
            .map_err(|_| GroupError::Code)?;
        let mut bytes = message[..length - ICV - FRONT].to_vec();
        let whole = u16::try_from(bytes.len()).map_err(|_| GroupError::Malformed)?;
        patch_length(&mut bytes, whole).map_err(|_| GroupError::Malformed)?;
        Ok(bytes)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use timeloom_wire::message::{FollowUp, Sync};
    use timeloom_wire::{MessageType, PortIdentity, Timestamp};

    use super::*;

    fn message(sync: bool, sequence: u16, ns: u32) -> Vec<u8> {
        let time = Timestamp::from_ns(ns.into());
        let header = Header::new(MessageType::Sync, PortIdentity::default(), sequence);
        let message = if sync {
            Message::new(header, Sync { origin: time })
        } else {
            Message::new(
                header,
                FollowUp {
                    precise_origin: time,
                },
            )
        };
        let mut buffer = [0; 64];
        let length = message.emit(&mut buffer).expect("it fits");
        buffer[..length].to_vec()
    }

    #[test]
    fn the_code_is_that_of_rfc_4231_case_5() {
        let key = GroupKey::new(0, 0, &[0x0c; 20]);
        let code = key.code(b"Test With Truncation").finalize().into_bytes();
        let expected = 0xa3b6_1674_7310_0ee0_6e0c_796c_2955_552b_u128;
        assert_eq!(code[..16], expected.to_be_bytes());
    }

    #[test]
    fn the_layout_is_that_of_linuxptp() {
        let plain = message(true, 7, 9);
        let protected = GroupKey::new(1, 0x0102_0304, &[5; 32])
            .protect(&plain)
            .expect("a message");
        assert_eq!(protected.len(), plain.len() + 26);
        assert_eq!(protected[2..4], [0, 70]);
        assert_eq!(protected[44..54], [0x80, 0x09, 0, 22, 1, 0, 1, 2, 3, 4]);
    }

    #[test]
    fn another_association_and_none_are_refused() {
        let plain = message(false, 7, 9);
        let key = GroupKey::new(1, 2, &[5; 32]);
        let protected = key.protect(&plain).expect("a message");
        assert_eq!(key.check(&plain), Err(GroupError::Unprotected));
        let other = |policy, id, secret| GroupKey::new(policy, id, &[secret; 32]).check(&protected);
        assert_eq!(other(2, 2, 5), Err(GroupError::Association));
        assert_eq!(other(1, 3, 5), Err(GroupError::Association));
        assert_eq!(other(1, 2, 6), Err(GroupError::Code));
        // A TLV with optional fields, which linuxptp does not support either.
        let mut optional = protected.clone();
        optional[49] = 2;
        assert_eq!(key.check(&optional), Err(GroupError::Association));
        // Bytes after the TLV, which the code does not cover.
        let mut more = protected;
        more.extend_from_slice(&[0x20, 6, 0, 0]);
        more[3] += 4;
        assert_eq!(key.check(&more), Err(GroupError::Unprotected));
    }

    proptest! {
        #[test]
        fn protected_messages_are_restored_and_others_refused(
            sync: bool, sequence: u16, ns: u32, secret: [u8; 32], padding in 0usize..9,
            bit in 0usize..70 * 8,
        ) {
            let plain = message(sync, sequence, ns);
            let key = GroupKey::new(3, 4, &secret);
            let mut protected = key.protect(&plain).expect("a message");
            let length = protected.len();
            protected.resize(length + padding, 0xee);
            let mut newer = plain;
            newer[1] |= MINOR_VERSION << 4;
            prop_assert_eq!(key.check(&protected), Ok(newer));
            protected[bit / 8] ^= 1 << (bit % 8);
            prop_assert!(key.check(&protected).is_err());
        }
    }
}
