//! Addresses of hosts: IPv4, IPv6, or one of each.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::str::FromStr;

use super::ParseWordError;

/// Address with the prefix length of its subnet.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Interface<A> {
    /// Address without the prefix length.
    pub address: A,
    /// Prefix length of the subnet: 1 … 30 for IPv4, 1 … 126 for IPv6.
    pub prefix: u8,
}

/// IPv4 address with a prefix length, such as `10.0.0.2/24`.
pub type Ipv4Interface = Interface<Ipv4Addr>;
/// IPv6 address with a prefix length, such as `fd00::2/64`.
pub type Ipv6Interface = Interface<Ipv6Addr>;

impl Ipv4Interface {
    fn mask(self) -> u32 {
        u32::MAX << (32 - u32::from(self.prefix.clamp(1, 32)))
    }

    /// Returns the address of the subnet, in which all host bits are 0.
    pub fn network(self) -> Ipv4Addr {
        Ipv4Addr::from_bits(self.address.to_bits() & self.mask())
    }

    /// Returns the broadcast address of the subnet, in which all host bits are 1.
    pub fn broadcast(self) -> Ipv4Addr {
        Ipv4Addr::from_bits(self.address.to_bits() | !self.mask())
    }
}

impl Ipv6Interface {
    /// Returns the address of the subnet, in which all host bits are 0.
    pub fn network(self) -> Ipv6Addr {
        let mask = u128::MAX << (128 - u32::from(self.prefix.clamp(1, 128)));
        Ipv6Addr::from_bits(self.address.to_bits() & mask)
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

/// Addresses of a host: an IPv4 address, an IPv6 address, or one of each.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Addresses {
    /// IPv4 address.
    pub v4: Option<Ipv4Interface>,
    /// IPv6 address.
    pub v6: Option<Ipv6Interface>,
}

impl Addresses {
    /// Returns each address, IPv4 first.
    pub fn each(self) -> impl Iterator<Item = IpAddr> {
        let v4 = self.v4.map(|own| own.address.into());
        let v6 = self.v6.map(|own| own.address.into());
        v4.into_iter().chain(v6)
    }

    /// Returns each subnet with its prefix length, IPv4 first.
    pub fn networks(self) -> impl Iterator<Item = (IpAddr, u8)> {
        let v4 = self.v4.map(|own| (own.network().into(), own.prefix));
        let v6 = self.v6.map(|own| (own.network().into(), own.prefix));
        v4.into_iter().chain(v6)
    }

    /// Returns each address with its prefix length as text, IPv4 first.
    pub(crate) fn texts(self) -> impl Iterator<Item = String> {
        let v4 = self.v4.map(|own| own.to_string());
        let v6 = self.v6.map(|own| own.to_string());
        v4.into_iter().chain(v6)
    }

    /// Returns the addresses of both; `None` if both have an address of the same kind.
    pub(crate) fn and(self, other: Self) -> Option<Self> {
        let twice = self.v4.and(other.v4).is_some() || self.v6.and(other.v6).is_some();
        (!twice).then(|| Self {
            v4: self.v4.or(other.v4),
            v6: self.v6.or(other.v6),
        })
    }
}

impl Default for Addresses {
    fn default() -> Self {
        Ipv4Interface::default().into()
    }
}

impl From<Ipv4Interface> for Addresses {
    fn from(own: Ipv4Interface) -> Self {
        Self {
            v4: Some(own),
            v6: None,
        }
    }
}

impl From<Ipv6Interface> for Addresses {
    fn from(own: Ipv6Interface) -> Self {
        Self {
            v4: None,
            v6: Some(own),
        }
    }
}

/// Parses one address, either IPv4 or IPv6.
impl FromStr for Addresses {
    type Err = ParseWordError;

    fn from_str(text: &str) -> Result<Self, ParseWordError> {
        if text.contains(':') {
            text.parse::<Ipv6Interface>().map(Self::from)
        } else {
            text.parse::<Ipv4Interface>().map(Self::from)
        }
    }
}

impl FromStr for Ipv4Interface {
    type Err = ParseWordError;

    fn from_str(text: &str) -> Result<Self, ParseWordError> {
        let fail = |reason: &str| refusal(text, reason, "10.0.0.2/24");
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

impl FromStr for Ipv6Interface {
    type Err = ParseWordError;

    fn from_str(text: &str) -> Result<Self, ParseWordError> {
        let fail = |reason: &str| refusal(text, reason, "fd00::2/64");
        let Some((address, prefix)) = text.split_once('/') else {
            return fail("it needs the length of the subnet's prefix");
        };
        let (Ok(address), Ok(prefix)) = (address.parse::<Ipv6Addr>(), prefix.parse::<u8>()) else {
            return fail("write an address of IPv6 and the length of the prefix");
        };
        if !(1..=126).contains(&prefix) {
            return fail("the prefix must be 1 … 126 long");
        }
        let this = Self { address, prefix };
        if address.is_loopback() || address.is_multicast() || address.is_unspecified() {
            return fail("loopback, multicast and unspecified addresses name no host");
        }
        if address.is_unicast_link_local() {
            return fail(
                "each host has one of its link (`fe80::`) already, made of its MAC address",
            );
        }
        if address.to_ipv4_mapped().is_some() {
            return fail("this is an address of IPv4 in another form");
        }
        if address == this.network() {
            return fail("this address is the anycast address of the subnet's routers");
        }
        Ok(this)
    }
}

fn refusal<T>(text: &str, reason: &str, example: &str) -> Result<T, ParseWordError> {
    Err(ParseWordError(format!(
        "`{text}` is not an address of a host: {reason}, as in `{example}`"
    )))
}

impl<A: fmt::Display> fmt::Display for Interface<A> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.address, self.prefix)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_of_either_kind_is_read_as_it_is_written() {
        for text in ["10.0.0.2/24", "fd00::2/64", "2001:db8:1::a/126"] {
            let read: Addresses = text.parse().expect("an address");
            assert_eq!(read.texts().collect::<Vec<_>>(), [text]);
        }
        let both: Addresses = "10.0.0.2/24".parse().unwrap();
        let both = both.and("fd00:1::2/64".parse().unwrap()).expect("one each");
        assert_eq!(
            both.networks()
                .map(|(network, _)| network.to_string())
                .collect::<Vec<_>>(),
            ["10.0.0.0", "fd00:1::"]
        );
        assert_eq!(both.and("fd00:2::2/64".parse().unwrap()), None);
    }

    #[test]
    fn addresses_that_name_no_host_are_refused_with_the_reason() {
        for (text, reason) in [
            ("fd00::2", "needs the length"),
            ("fd00::2/127", "1 … 126"),
            ("fd00:::2/64", "write an address of IPv6"),
            ("::1/64", "name no host"),
            ("ff02::1/64", "name no host"),
            ("fe80::1/64", "of its link"),
            ("::ffff:10.0.0.1/120", "in another form"),
            ("fd00::/64", "the subnet's routers"),
            ("10.0.0.0/24", "the subnet itself"),
        ] {
            let refused = text.parse::<Addresses>().expect_err(text).to_string();
            assert!(refused.contains(reason), "{refused}");
        }
    }
}
