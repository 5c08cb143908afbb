//! Tables `[network.hosts.NAME]`: simulated hosts that serve real programs.

use std::ops::RangeInclusive;

use crate::table::{table, words};
use crate::words::Addresses;

table! {
/// Simulated host with a real TCP/IP stack. NAME may be a host of a generated topology or of the
/// graph. A host that does not exist is created; `system.links` must then connect it.
#[noun = "a simulated host"]
#[derive(Eq)]
pub struct ServingHost {
    /// Address with prefix length: IPv4, IPv6, or a list of one of each. If left out, it is chosen
    /// automatically.
    pub address: Option<Addresses>,
    /// TCP services. If left out, the host answers pings and refuses connections.
    pub services: Vec<Service> = Vec::new(),
    /// Maximum number of simultaneous connections. Further ones are refused.
    #[within(Self::CONNECTIONS)]
    pub connections: u16 = 64,
    /// Buffer size in bytes, for each connection and direction. It is also the largest window.
    #[within(Self::BUFFERS)]
    pub buffer: u64 = 262_144,
}
}

impl ServingHost {
    /// Permitted numbers of connections.
    pub(crate) const CONNECTIONS: RangeInclusive<u16> = 1..=1024;

    /// Permitted sizes of a buffer, in bytes.
    pub(crate) const BUFFERS: RangeInclusive<u64> = 2048..=4 << 20;
}

table! {
/// Service on a TCP port.
#[noun = "a service"]
#[derive(Eq)]
pub struct Service {
    /// Kind of service.
    pub kind: ServiceKind,
    /// TCP port. If left out, 7, 9, 19 or 80, depending on the kind.
    #[within(1..)]
    #[depends_on("kind")]
    pub port: u16 = kind.usual_port(),
    /// Size of a page (if left out, 1000) or of the output of a source (if left out, unlimited), in
    /// bytes.
    pub bytes: Option<u64>,
}
}

words! {
/// Kind of a service.
pub enum ServiceKind {
    /// Returns all data that it receives.
    Echo = "echo",
    /// Reads all data and sends nothing.
    Discard = "discard",
    /// Sends data as fast as the client reads.
    Source = "source",
    /// HTTP/1.1. Serves pages of `bytes`, or of the size in the path (`/100000`). Accepts uploads
    /// by POST and PUT.
    Http = "http",
}
}

impl ServiceKind {
    /// Returns the well-known TCP port of the service (RFC 862, 863, 864, 9110).
    pub fn usual_port(self) -> u16 {
        match self {
            Self::Echo => 7,
            Self::Discard => 9,
            Self::Source => 19,
            Self::Http => 80,
        }
    }

    /// Returns true if the service uses `bytes`.
    pub fn has_bytes(self) -> bool {
        matches!(self, Self::Source | Self::Http)
    }
}
