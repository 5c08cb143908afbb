//! Hosts by number, and sets of them.

use std::fmt;

/// The number of a host on the bus, below [`Hosts::MOST`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct HostId(u8);

impl HostId {
    /// The host of this number; `None` from [`Hosts::MOST`] on.
    pub const fn new(number: u8) -> Option<Self> {
        match number < Hosts::MOST {
            true => Some(Self(number)),
            false => None,
        }
    }

    /// Its number.
    pub const fn number(self) -> u8 {
        self.0
    }
}

impl fmt::Display for HostId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "host {}", self.0)
    }
}

/// A set of hosts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Hosts(u64);

impl Hosts {
    /// How many hosts a bus has at most.
    pub const MOST: u8 = 64;
    /// Nobody.
    pub const NONE: Self = Self(0);

    /// The set whose hosts are the bits of a number.
    pub const fn from_bits(bits: u64) -> Self {
        Self(bits)
    }

    /// One bit for each host.
    pub const fn to_bits(self) -> u64 {
        self.0
    }

    /// How many.
    pub const fn count(self) -> u32 {
        self.0.count_ones()
    }

    /// Whether there is none.
    pub const fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// Whether this host is one of them.
    pub const fn contains(self, host: HostId) -> bool {
        self.0 & (1 << host.0) != 0
    }

    /// These and one more.
    #[must_use]
    pub const fn with(self, host: HostId) -> Self {
        Self(self.0 | 1 << host.0)
    }

    /// Those of one set or the other.
    #[must_use]
    pub const fn or(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    /// Those of both sets.
    #[must_use]
    pub const fn and(self, other: Self) -> Self {
        Self(self.0 & other.0)
    }

    /// Those of this set that are not of the other.
    #[must_use]
    pub const fn without(self, other: Self) -> Self {
        Self(self.0 & !other.0)
    }

    /// Each of them, by number.
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
