//! Reasons for which a packet is refused.

use crate::tables::address::Family;

/// Reason for which a router or host refuses a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Refusal {
    /// The packet's time to live has expired.
    TimeExceeded,
    /// There is no route to the network.
    NetUnreachable,
    /// The destination's network exists, but no host answers at the address.
    HostUnreachable,
    /// No socket listens on the destination port.
    PortUnreachable,
    /// The packet must not be fragmented, and the next link's MTU is this many bytes.
    TooBig(u16),
}

impl Refusal {
    /// Returns type, code, and the four bytes after the checksum of the ICMP error.
    pub(crate) fn header(self, family: Family) -> (u8, u8, u32) {
        match (self, family) {
            (Self::NetUnreachable, Family::V4) => (3, 0, 0),
            (Self::HostUnreachable, Family::V4) => (3, 1, 0),
            (Self::PortUnreachable, Family::V4) => (3, 3, 0),
            // These bytes contain the next hop's MTU (RFC 1191, section 4).
            (Self::TooBig(mtu), Family::V4) => (3, 4, mtu.into()),
            (Self::TimeExceeded, Family::V4) => (11, 0, 0),
            // Types and codes of RFC 4443, section 3.
            (Self::NetUnreachable, Family::V6) => (1, 0, 0),
            (Self::HostUnreachable, Family::V6) => (1, 3, 0),
            (Self::PortUnreachable, Family::V6) => (1, 4, 0),
            (Self::TooBig(mtu), Family::V6) => (2, 0, mtu.into()),
            (Self::TimeExceeded, Family::V6) => (3, 0, 0),
        }
    }
}
