//! MAC addresses by number.

use std::collections::HashMap;

use crate::packet::PortId;

/// MAC addresses by number. An interface's number is its port; what else real
/// programs use gets one here.
#[derive(Debug, Default)]
pub(crate) struct Macs {
    pub(crate) others: HashMap<[u8; 6], u32>,
    pub(crate) list: Vec<[u8; 6]>,
    /// Interfaces with a MAC address of their own.
    pub(crate) given: HashMap<PortId, [u8; 6]>,
}

/// Numbers from here on are in the list. Ports are below 2^28.
pub(crate) const OTHERS: u32 = 1 << 31;

/// Addresses beyond those of interfaces that are told apart.
pub(crate) const OTHERS_AT_MOST: usize = 65_536;

impl Macs {
    /// The number of an address; `None` when there are too many.
    pub(crate) fn key(&mut self, mac: [u8; 6]) -> Option<PortId> {
        if !self.given.is_empty()
            && let Some((port, _)) = self.given.iter().find(|(_, given)| **given == mac)
        {
            return Some(*port);
        }
        let [2, 0, number @ ..] = mac else {
            return self.other(mac);
        };
        let number = u32::from_be_bytes(number);
        if number < OTHERS {
            Some(PortId(number))
        } else {
            self.other(mac)
        }
    }

    pub(crate) fn other(&mut self, mac: [u8; 6]) -> Option<PortId> {
        if mac == [0xff; 6] {
            return Some(PortId::NONE);
        }
        if let Some(number) = self.others.get(&mac) {
            return Some(PortId(*number));
        }
        if self.list.len() == OTHERS_AT_MOST {
            return None;
        }
        let number = OTHERS + self.list.len() as u32;
        self.list.push(mac);
        self.others.insert(mac, number);
        Some(PortId(number))
    }

    /// The address that has this number.
    pub(crate) fn mac(&self, key: PortId) -> [u8; 6] {
        if key == PortId::NONE {
            return [0xff; 6];
        }
        if !self.given.is_empty()
            && let Some(mac) = self.given.get(&key)
        {
            return *mac;
        }
        match self.list.get(key.0.wrapping_sub(OTHERS) as usize) {
            Some(mac) if key.0 >= OTHERS => *mac,
            _ => {
                let [a, b, c, d] = key.0.to_be_bytes();
                [2, 0, a, b, c, d]
            }
        }
    }
}
