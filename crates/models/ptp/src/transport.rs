//! Transports of PTP messages.

/// Transport of PTP messages.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "schemars", derive(schemars::JsonSchema))]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[cfg_attr(feature = "serde", serde(rename_all = "lowercase"))]
#[cfg_attr(feature = "schemars", schemars(rename = "PtpTransport"))]
pub enum Transport {
    // Ethertype 0x88F7 (annex F).
    /// Ethernet frames.
    #[default]
    #[cfg_attr(feature = "serde", serde(rename = "l2"))]
    Layer2,
    // Multicast, ports 319 and 320 (annex D).
    /// UDP over IPv4.
    Udp4,
}
