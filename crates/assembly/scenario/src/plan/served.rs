//! Simulated hosts that serve real programs: `[network.hosts.NAME]`.

use schemars::JsonSchema;
use serde::Serialize;

use crate::read::{Fields, Read};
use crate::words::Addresses;

/// A simulated host with a real TCP/IP stack. The name may be that of a host of a
/// generated topology or of the graph; one that there is not yet is made, and
/// `system.links` lead to it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub struct ServingHost {
    /// Its address, with its prefix; of IPv4, IPv6, or a list of one of each. Chosen when absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub address: Option<Addresses>,
    /// What it serves over TCP; without any it answers pings and refuses
    /// connections.
    #[schemars(default)]
    pub services: Vec<Service>,
    /// Connections at once; further ones are refused.
    #[schemars(default = "connections", range(min = 1, max = 1024))]
    pub connections: u16,
    /// Bytes kept for each connection and direction: the largest window.
    #[schemars(default = "buffer", range(min = 2048, max = 4_194_304))]
    pub buffer: u64,
}

/// What listens on one TCP port.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub struct Service {
    /// What it does.
    pub kind: ServiceKind,
    /// The port: 7, 9, 19 and 80 when left out, by its kind.
    #[schemars(range(min = 1))]
    pub port: u16,
    /// Bytes of a page (1000 when left out), or of what a source sends (without
    /// end when left out).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bytes: Option<u64>,
}

/// What a service does.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum ServiceKind {
    /// Sends back what comes.
    #[default]
    Echo,
    /// Takes all and says nothing.
    Discard,
    /// Sends as fast as it is taken.
    Source,
    /// HTTP/1.1: pages of `bytes`, or of as many as the path says (`/100000`);
    /// takes what is sent to it by POST and PUT.
    Http,
}

impl ServiceKind {
    /// The port that is known for this (RFC 862, 863, 864, 9110).
    pub fn usual_port(self) -> u16 {
        match self {
            Self::Echo => 7,
            Self::Discard => 9,
            Self::Source => 19,
            Self::Http => 80,
        }
    }

    /// Whether its `bytes` say anything.
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
