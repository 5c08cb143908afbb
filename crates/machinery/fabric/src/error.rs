//! What can go wrong: with the description, or with the kernel.

use core::fmt;
use std::io;
use std::net::Ipv4Addr;

use rustix::io::Errno;

use crate::names::MacAddress;

/// Why a network could not be built.
#[derive(Debug)]
pub enum FabricError {
    /// The description contradicts itself; nothing was tried.
    Spec(SpecError),
    /// The kernel refused a step; everything built so far is gone again.
    Kernel(KernelError),
}

/// Why a [`crate::NetworkSpec`] describes no network that can be built.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SpecError {
    /// Two switches or stations share a name.
    DuplicateName(String),
    /// A name is empty or has characters beyond letters, digits, `_`, `-`, `.`.
    BadName(String),
    /// OpenFlow is asked of what is no switch, or twice of the same.
    NoSwitch(String),
    /// A link names a node that is neither a switch nor a station.
    UnknownNode {
        /// The name nobody has.
        name: String,
        /// The link that uses it, as `a - b`.
        link: String,
    },
    /// A link joins a node to itself.
    SelfLink(String),
    /// Two nodes are linked twice.
    DuplicateLink(String, String),
    /// This link closes a loop. Bridges run no spanning tree here, so one
    /// broadcast would circle for ever.
    Loop(String, String),
    /// A station has one interface, so it takes exactly one link.
    StationLinks {
        /// The station.
        station: String,
        /// How many links name it.
        links: usize,
    },
    /// Two stations share an address.
    DuplicateAddress(Ipv4Addr),
    /// The address or prefix length cannot belong to a station.
    BadAddress {
        /// The station.
        station: String,
        /// The address as given.
        address: Ipv4Addr,
        /// The prefix length as given.
        prefix_len: u8,
    },
    /// Two stations share a MAC address.
    DuplicateMac(MacAddress),
    /// The MAC address is a group address or all zero.
    BadMac(MacAddress),
    /// A rate below 8 bit/s, which the kernel (bytes per second) reads as zero.
    BadRate {
        /// The link, as `a - b`.
        link: String,
        /// The rate as given.
        rate_bits_per_s: u64,
    },
}

/// A step that the kernel refused: what was tried, what it answered, and what
/// is missing when that can be told from the answer.
#[derive(Debug)]
pub struct KernelError {
    action: String,
    source: io::Error,
    detail: Option<String>,
    missing: Option<String>,
}

impl KernelError {
    pub(crate) fn new(action: impl Into<String>, source: io::Error) -> Self {
        let missing = match Errno::from_io_error(&source) {
            Some(Errno::PERM | Errno::ACCESS) => {
                Some("CAP_SYS_ADMIN and CAP_NET_ADMIN (run as root)".to_owned())
            }
            _ => None,
        };
        Self {
            action: action.into(),
            source,
            detail: None,
            missing,
        }
    }

    /// The kernel's own words (netlink's extended acknowledgement).
    pub(crate) fn with_detail(mut self, detail: Option<String>) -> Self {
        self.detail = detail;
        self
    }

    /// Says that `what` is missing when the kernel answered one of `errnos`.
    pub(crate) fn missing_if(mut self, errnos: &[Errno], what: &str) -> Self {
        if self.missing.is_none()
            && Errno::from_io_error(&self.source).is_some_and(|errno| errnos.contains(&errno))
        {
            self.missing = Some(what.to_owned());
        }
        self
    }

    /// What the machine lacks, such as a capability or a kernel option, when
    /// the answer tells.
    pub fn missing(&self) -> Option<&str> {
        self.missing.as_deref()
    }
}

impl fmt::Display for KernelError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "cannot {}: {}", self.action, self.source)?;
        if let Some(detail) = &self.detail {
            write!(f, " ({detail})")?;
        }
        match &self.missing {
            Some(missing) => write!(f, "; this needs {missing}"),
            None => Ok(()),
        }
    }
}

impl fmt::Display for SpecError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::DuplicateName(name) => write!(f, "two nodes are called `{name}`"),
            Self::BadName(name) => write!(
                f,
                "`{name}` cannot name a node: use letters, digits, `_`, `-` and `.`, at least one"
            ),
            Self::UnknownNode { name, link } => {
                write!(f, "link `{link}`: there is no switch or station `{name}`")
            }
            Self::SelfLink(name) => write!(f, "a link joins `{name}` to itself"),
            Self::NoSwitch(name) => write!(
                f,
                "`{name}` cannot speak OpenFlow: it is no switch, or named twice"
            ),
            Self::DuplicateLink(a, b) => write!(f, "`{a}` and `{b}` are linked twice"),
            Self::Loop(a, b) => write!(
                f,
                "link `{a} - {b}` closes a loop; switches run no spanning tree, \
                 so a broadcast would circle for ever"
            ),
            Self::StationLinks { station, links: 0 } => {
                write!(f, "station `{station}` has no link; it needs one")
            }
            Self::StationLinks { station, links } => write!(
                f,
                "station `{station}` has {links} links but only one interface; \
                 put a switch in between"
            ),
            Self::DuplicateAddress(address) => write!(f, "two stations have the address {address}"),
            Self::BadAddress {
                station,
                address,
                prefix_len,
            } => write!(
                f,
                "station `{station}` cannot have the address {address}/{prefix_len}: \
                 a unicast IPv4 address with a prefix of 1 to 32 bits is needed"
            ),
            Self::DuplicateMac(mac) => write!(f, "two stations have the MAC address {mac}"),
            Self::BadMac(mac) => write!(f, "{mac} is no unicast MAC address"),
            Self::BadRate {
                link,
                rate_bits_per_s,
            } => {
                write!(
                    f,
                    "link `{link}`: a rate of {rate_bits_per_s} bit/s is too low, 8 is the least"
                )
            }
        }
    }
}

impl fmt::Display for FabricError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Spec(error) => error.fmt(f),
            Self::Kernel(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for SpecError {}

impl std::error::Error for KernelError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        Some(&self.source)
    }
}

impl std::error::Error for FabricError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Spec(error) => Some(error),
            Self::Kernel(error) => Some(error),
        }
    }
}

impl From<SpecError> for FabricError {
    fn from(error: SpecError) -> Self {
        Self::Spec(error)
    }
}

impl From<KernelError> for FabricError {
    fn from(error: KernelError) -> Self {
        Self::Kernel(error)
    }
}
