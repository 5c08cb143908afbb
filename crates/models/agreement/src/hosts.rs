//! Host numbers, and sets of hosts.

use std::fmt;

/// Number of a host on the bus, from 0 and below [`Hosts::MOST`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct HostId(u8);

impl HostId {
    /// Returns the host with this number; `None` if `number` is [`Hosts::MOST`] or more.
    pub const fn new(number: u8) -> Option<Self> {
        match number < Hosts::MOST {
            true => Some(Self(number)),
            false => None,
        }
    }

    /// Returns the host's number.
    pub const fn number(self) -> u8 {
        self.0
    }
}

impl fmt::Display for HostId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "host {}", self.0)
    }
}

/// Set of hosts, as a bitmap.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Hosts(u64);

impl Hosts {
    /// Maximum number of hosts on a bus.
    pub const MOST: u8 = 64;
    /// Empty set.
    pub const NONE: Self = Self(0);

    /// Returns the set of the hosts whose bits are set in `bits`; bit `n` is host `n`.
    pub const fn from_bits(bits: u64) -> Self {
        Self(bits)
    }

    /// Returns the set as a number in which bit `n` is host `n`.
    pub const fn to_bits(self) -> u64 {
        self.0
    }

    /// Returns the number of hosts.
    pub const fn count(self) -> u32 {
        self.0.count_ones()
    }

    /// Returns true if the set is empty.
    pub const fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// Returns true if the set contains this host.
    pub const fn contains(self, host: HostId) -> bool {
        self.0 & (1 << host.0) != 0
    }

    /// Returns the set with `host` added.
    #[must_use]
    pub const fn with(self, host: HostId) -> Self {
        Self(self.0 | 1 << host.0)
    }

    /// Returns the union of both sets.
    #[must_use]
    pub const fn or(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    /// Returns the intersection of both sets.
    #[must_use]
    pub const fn and(self, other: Self) -> Self {
        Self(self.0 & other.0)
    }

    /// Returns the hosts of this set that are not in `other`.
    #[must_use]
    pub const fn without(self, other: Self) -> Self {
        Self(self.0 & !other.0)
    }

    /// Iterates over the hosts in ascending order.
    pub fn iter(self) -> impl Iterator<Item = HostId> {
        (0..Self::MOST)
            .map(HostId)
            .filter(move |host| self.contains(*host))
    }
}

impl FromIterator<HostId> for Hosts {
    fn from_iter<I: IntoIterator<Item = HostId>>(hosts: I) -> Self {
        hosts.into_iter().fold(Self::NONE, Self::with)
    }
}
