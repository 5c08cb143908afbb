//! MAC addresses and their numbers.

use std::collections::HashMap;

use timeloom_time::convert::number_of;

use crate::packet::PortId;

/// MAC addresses by number. The number of an interface's address is its port. Other addresses that
/// real programs use get a number here.
#[derive(Clone, Debug, Default)]
pub(crate) struct Macs {
    others: HashMap<[u8; 6], u32>,
    list: Vec<[u8; 6]>,
    /// Interfaces with another MAC address than the model's.
    given: HashMap<PortId, [u8; 6]>,
}

/// Number of the first address in the list. Numbers of ports are below 2^28.
const OTHERS: u32 = 1 << 31;

/// Maximum number of addresses in addition to those of interfaces.
const OTHERS_AT_MOST: usize = 65_536;

impl Macs {
    /// Sets the MAC address of an interface, in place of the model's.
    pub(crate) fn set(&mut self, port: PortId, mac: [u8; 6]) {
        self.given.insert(port, mac);
    }

    /// Returns the number of an address, which gets one if it is new; `None` if there are too many.
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

    fn other(&mut self, mac: [u8; 6]) -> Option<PortId> {
        if mac == [0xff; 6] {
            return Some(PortId::NONE);
        }
        if let Some(number) = self.others.get(&mac) {
            return Some(PortId(*number));
        }
        if self.list.len() == OTHERS_AT_MOST {
            return None;
        }
        let number = OTHERS + number_of(self.list.len());
        self.list.push(mac);
        self.others.insert(mac, number);
        Some(PortId(number))
    }

    /// Returns true if only this engine knows the address with this number.
    pub(crate) fn is_own(key: PortId) -> bool {
        key.0 >= OTHERS && key != PortId::NONE
    }

    /// Returns the address with this number.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_interface_has_its_own_number_and_others_get_one() {
        let mut macs = Macs::default();
        assert_eq!(macs.mac(PortId(0x0102_0304)), [2, 0, 1, 2, 3, 4]);
        assert_eq!(macs.key([2, 0, 1, 2, 3, 4]), Some(PortId(0x0102_0304)));
        assert_eq!(macs.key([0xff; 6]), Some(PortId::NONE));
        assert_eq!(macs.mac(PortId::NONE), [0xff; 6]);
        let other = [0x52, 0x54, 0, 1, 2, 3];
        let key = macs.key(other).unwrap();
        assert_eq!((macs.key(other), macs.mac(key)), (Some(key), other));
        // An address in the model's format whose number is beyond all ports belongs to a real
        // station.
        let high = [2, 0, 0x80, 0, 0, 0];
        assert_eq!(macs.key(high).map(|key| macs.mac(key)), Some(high));
    }

    #[test]
    fn an_address_that_was_given_replaces_the_models() {
        let mut macs = Macs::default();
        let given = [0x52, 0x54, 0, 9, 9, 9];
        macs.set(PortId(4), given);
        assert_eq!(
            (macs.mac(PortId(4)), macs.key(given)),
            (given, Some(PortId(4)))
        );
        assert_eq!(macs.mac(PortId(5)), [2, 0, 0, 0, 0, 5]);
    }

    #[test]
    fn no_more_addresses_are_told_apart_than_can_be_kept() {
        let mut macs = Macs::default();
        let mac = |number: u32| {
            let [a, b, c, d] = number.to_be_bytes();
            [0x52, 0x54, a, b, c, d]
        };
        for number in 0..OTHERS_AT_MOST as u32 {
            assert!(macs.key(mac(number)).is_some());
        }
        assert_eq!(macs.key(mac(OTHERS_AT_MOST as u32)), None);
        assert!(macs.key(mac(0)).is_some(), "what is known stays known");
    }
}
