//! Tables `[network.hosts.NAME]`: simulated hosts that serve real programs.

use schemars::JsonSchema;
use serde::Serialize;

use crate::read::{Fields, Read};
use crate::words::Addresses;

/// Simulated host with a real TCP/IP stack. NAME may be a host of a generated topology or of the
/// graph. A host that does not exist is created; `system.links` must then connect it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub struct ServingHost {
    /// Address with prefix length: IPv4, IPv6, or a list of one of each. If left out, it is chosen
    /// automatically.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub address: Option<Addresses>,
    /// TCP services. If left out, the host answers pings and refuses connections.
    #[schemars(default)]
    pub services: Vec<Service>,
    /// Maximum number of simultaneous connections. Further ones are refused.
    #[schemars(default = "connections", range(min = 1, max = 1024))]
    pub connections: u16,
    /// Buffer size in bytes, for each connection and direction. It is also the largest window.
    #[schemars(default = "buffer", range(min = 2048, max = 4_194_304))]
    pub buffer: u64,
}

/// Service on a TCP port.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub struct Service {
    /// Kind of service.
    pub kind: ServiceKind,
    /// TCP port. If left out, 7, 9, 19 or 80, depending on the kind.
    #[schemars(range(min = 1))]
    pub port: u16,
    /// Size of a page (if left out, 1000) or of the output of a source (if left out, unlimited), in
    /// bytes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bytes: Option<u64>,
}

/// Kind of a service.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum ServiceKind {
    /// Returns all data that it receives.
    #[default]
    Echo,
    /// Reads all data and sends nothing.
    Discard,
    /// Sends data as fast as the client reads.
    Source,
    /// HTTP/1.1. Serves pages of `bytes`, or of the size in the path (`/100000`). Accepts uploads
    /// by POST and PUT.
    Http,
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

fn connections() -> u16 {
    64
}
fn buffer() -> u64 {
    262_144
}

impl Read for ServingHost {
    const NOUN: &'static str = "a simulated host";

    fn read_table(fields: &mut Fields<'_>) -> Self {
        Self {
            address: fields.optional("address"),
            services: fields.or_default("services"),
            connections: fields.or("connections", connections()),
            buffer: fields.or("buffer", buffer()),
        }
    }
}

impl Read for Service {
    const NOUN: &'static str = "a service";

    fn read_table(fields: &mut Fields<'_>) -> Self {
        let kind: ServiceKind = fields.required("kind");
        Self {
            kind,
            port: fields.or("port", kind.usual_port()),
            bytes: fields.optional("bytes"),
        }
    }
}
