//! Addresses of hosts.

use std::fmt;
use std::net::Ipv4Addr;
use std::str::FromStr;

use super::ParseWordError;

/// An IPv4 address with the length of its subnet's prefix: `10.0.0.2/24`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Ipv4Interface {
    /// The address.
    pub address: Ipv4Addr,
    /// How many leading bits name the subnet: 1 … 30.
    pub prefix: u8,
}

impl Ipv4Interface {
    fn mask(self) -> u32 {
        u32::MAX << (32 - u32::from(self.prefix.clamp(1, 32)))
    }

    /// The address of the subnet: all host bits 0.
    pub fn network(self) -> Ipv4Addr {
        Ipv4Addr::from_bits(self.address.to_bits() & self.mask())
    }

    /// The address of all hosts of the subnet: all host bits 1.
    pub fn broadcast(self) -> Ipv4Addr {
        Ipv4Addr::from_bits(self.address.to_bits() | !self.mask())
    }
}

impl Default for Ipv4Interface {
    fn default() -> Self {
        Self {
            address: Ipv4Addr::UNSPECIFIED,
            prefix: 24,
        }
    }
}

impl FromStr for Ipv4Interface {
    type Err = ParseWordError;

    fn from_str(text: &str) -> Result<Self, ParseWordError> {
        let fail = |reason: &str| {
            Err(ParseWordError(format!(
                "`{text}` is not an address of a host: {reason}, as in `10.0.0.2/24`"
            )))
        };
        let Some((address, prefix)) = text.split_once('/') else {
            return fail("it needs the length of the subnet's prefix");
        };
        let (Ok(address), Ok(prefix)) = (address.parse::<Ipv4Addr>(), prefix.parse::<u8>()) else {
            return fail("write four numbers up to 255 and the length of the prefix");
        };
        if !(1..=30).contains(&prefix) {
            return fail("the prefix must be 1 … 30 long");
        }
        let this = Self { address, prefix };
        if address.is_loopback() || address.is_multicast() || address.is_unspecified() {
            return fail("loopback, multicast and unspecified addresses name no host");
        }
        if address == this.network() {
            return fail("this one names the subnet itself");
        }
        if address == this.broadcast() {
            return fail("this one is the subnet's broadcast address");
        }
        Ok(this)
    }
}

impl fmt::Display for Ipv4Interface {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.address, self.prefix)
    }
}
