//! Check that no key which may sign only once per Sync signs twice.

use std::collections::HashMap;

use timeloom_ptp::security::ORGANIZATION;
use timeloom_wire::tlv::{SignedFlags, SignedTlv, SubType, Suite};
use timeloom_wire::{Message, PortIdentity};

/// Messages that nodes have sent, recorded before an attacker changes them.
#[derive(Default)]
pub struct Once {
    seen: HashMap<(usize, u16, PortIdentity, u64), Vec<u8>>,
    /// Number of signatures by keys that sign once per Sync; then, by ordinary keys in the same
    /// chains.
    pub once: u64,
    pub ordinary: u64,
}

impl Once {
    /// Records a message that left the node and port `from`.
    ///
    /// # Panics
    /// Panics if `from` has signed a different message for the same Sync before.
    pub fn saw(&mut self, from: (usize, u16), bytes: &[u8]) {
        let Ok(message) = Message::parse(bytes) else {
            return;
        };
        let signed = message
            .tlvs
            .iter()
            .find_map(|tlv| SignedTlv::parse(tlv, ORGANIZATION)?.ok());
        let Some(tlv) = signed.filter(|tlv| {
            tlv.head.suite == Suite::BlsOnce && tlv.head.sub_type == SubType::FollowUp
        }) else {
            return;
        };
        let is_ordinary = match tlv.entries().last() {
            Some((entry, _)) => entry.egress_port == 0 || entry.egress_port & 0x80 != 0,
            None => tlv.head.flags.has(SignedFlags::ORDINARY),
        };
        if is_ordinary {
            self.ordinary += 1;
            return;
        }
        assert!(!tlv.head.flags.has(SignedFlags::RESTARTED));
        self.once += 1;
        let source = message.header.source;
        let number =
            u64::from(tlv.head.sequence_high) << 16 | u64::from(message.header.sequence_id);
        let before = self
            .seen
            .insert((from.0, from.1, source, number), bytes.to_vec());
        assert!(
            before.is_none_or(|before| before == bytes),
            "node {} signed Sync {number} of {source:?} twice",
            from.0
        );
    }
}
