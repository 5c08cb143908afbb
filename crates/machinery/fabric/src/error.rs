//! Errors of a network description or of the kernel.

use core::fmt;
use std::io;
use std::net::IpAddr;

use rustix::io::Errno;

use timeloom_wire::MacAddress;

/// Reason why a network could not be built.
#[derive(Debug, thiserror::Error)]
pub enum FabricError {
    /// The description contradicts itself. Nothing has been created.
    #[error("{0}")]
    Spec(#[from] SpecError),
    /// The kernel refused a step. Everything created until then has been removed.
    #[error("{0}")]
    Kernel(#[from] KernelError),
}

/// Reason why no network can be built from a [`crate::NetworkSpec`].
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SpecError {
    /// Two switches or stations share a name.
    #[error("two nodes are called `{0}`")]
    DuplicateName(String),
    /// A name is empty or has characters beyond letters, digits, `_`, `-`, `.`.
    #[error("`{0}` cannot name a node: use letters, digits, `_`, `-` and `.`, at least one")]
    BadName(String),
    /// OpenFlow is requested for a node that is not a switch, or twice for the same switch.
    #[error("`{0}` cannot speak OpenFlow: it is not a switch, or named twice")]
    NoSwitch(String),
    /// A link names a node that is neither a switch nor a station.
    #[error("link `{link}`: there is no switch or station `{name}`")]
    UnknownNode {
        /// The unknown name.
        name: String,
        /// The link, as `a - b`.
        link: String,
    },
    /// A link joins this node to itself.
    #[error("a link joins `{0}` to itself")]
    SelfLink(String),
    /// These two nodes are linked twice.
    #[error("`{0}` and `{1}` are linked twice")]
    DuplicateLink(String, String),
    /// The link closes a loop. Bridges run no spanning tree here, so one broadcast would circulate
    /// for ever.
    #[error(
        "link `{0} - {1}` closes a loop; switches run no spanning tree, so a broadcast would \
         circulate for ever"
    )]
    Loop(String, String),
    /// A station does not have exactly one link, which it needs for its one interface.
    #[error(fmt = station_links)]
    StationLinks {
        /// Name of the station.
        station: String,
        /// Number of links of the station.
        links: usize,
    },
    /// Two stations share an address.
    #[error("two stations have the address {0}")]
    DuplicateAddress(IpAddr),
    /// A station has no address.
    #[error("station `{0}` has no address")]
    NoAddress(String),
    /// The address or prefix length is not valid for a station.
    #[error(
        "station `{station}` cannot have the address {address}/{prefix_len}: a unicast \
         address with a prefix of 1 to 32 bits is needed, of IPv6 to 128 and none of its link"
    )]
    BadAddress {
        /// Name of the station.
        station: String,
        /// The address as given.
        address: IpAddr,
        /// The prefix length as given.
        prefix_len: u8,
    },
    /// Two stations share a MAC address.
    #[error("two stations have the MAC address {0}")]
    DuplicateMac(MacAddress),
    /// The MAC address is a group address or all zero.
    #[error("{0} is not a unicast MAC address")]
    BadMac(MacAddress),
    /// The rate is below 8 bit/s, which the kernel (bytes per second) reads as zero.
    #[error("link `{link}`: a rate of {rate_bits_per_s} bit/s is too low; the minimum is 8")]
    BadRate {
        /// The link, as `a - b`.
        link: String,
        /// The rate as given.
        rate_bits_per_s: u64,
    },
}

fn station_links(station: &str, links: &usize, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    match links {
        0 => write!(f, "station `{station}` has no link; it needs one"),
        _ => write!(
            f,
            "station `{station}` has {links} links but only one interface; put a switch in between"
        ),
    }
}

/// Step that the kernel refused: the operation, the kernel's error, and the missing feature if the
/// error identifies one.
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

    /// Adds the kernel's own text about the error (netlink's extended acknowledgement).
    pub(crate) fn with_detail(mut self, detail: Option<String>) -> Self {
        self.detail = detail;
        self
    }

    /// Records that the kernel lacks the feature `what` if its error is one of `errnos`.
    pub(crate) fn missing_if(mut self, errnos: &[Errno], what: &str) -> Self {
        if self.missing.is_none()
            && Errno::from_io_error(&self.source).is_some_and(|errno| errnos.contains(&errno))
        {
            self.missing = Some(what.to_owned());
        }
        self
    }

    /// Returns the feature that the machine lacks, such as a capability or a kernel option, if the
    /// error identifies it.
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

impl std::error::Error for KernelError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        Some(&self.source)
    }
}
