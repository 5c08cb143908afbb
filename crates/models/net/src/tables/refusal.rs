//! Reasons for refusing to forward a packet.

use crate::tables::address::Family;

/// Reason for refusing to forward a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Refusal {
    /// Its time to live has expired.
    TimeExceeded,
    /// There is no route to the network.
    NetUnreachable,
    /// The network exists, and no host answers at this address.
    HostUnreachable,
    /// No socket listens on the port.
    PortUnreachable,
    /// It must not be fragmented, and only this many bytes fit.
    TooBig(u16),
}

impl Refusal {
    /// Returns type, code, and the four bytes that follow the checksum.
    pub(crate) fn header(self, family: Family) -> (u8, u8, u32) {
        match (self, family) {
            (Self::NetUnreachable, Family::V4) => (3, 0, 0),
            (Self::HostUnreachable, Family::V4) => (3, 1, 0),
            (Self::PortUnreachable, Family::V4) => (3, 3, 0),
            // RFC 1191 section 4: the next hop's MTU.
            (Self::TooBig(mtu), Family::V4) => (3, 4, mtu.into()),
            (Self::TimeExceeded, Family::V4) => (11, 0, 0),
            // RFC 4443, section 3.
            (Self::NetUnreachable, Family::V6) => (1, 0, 0),
            (Self::HostUnreachable, Family::V6) => (1, 3, 0),
            (Self::PortUnreachable, Family::V6) => (1, 4, 0),
            (Self::TooBig(mtu), Family::V6) => (2, 0, mtu.into()),
            (Self::TimeExceeded, Family::V6) => (3, 0, 0),
        }
    }
}
