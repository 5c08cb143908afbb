//! Why a packet goes no further.

/// Why a packet goes no further.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Refusal {
    /// Its time to live has run out.
    TimeExceeded,
    /// No route leads there.
    NetUnreachable,
    /// There is such a network, and nobody answers at this address.
    HostUnreachable,
    /// Nobody listens there.
    PortUnreachable,
    /// It must not be cut, and only this many bytes fit.
    TooBig(u16),
}

impl Refusal {
    /// Type, code, and the last two of the four bytes that follow the checksum.
    pub(crate) fn header(self) -> (u8, u8, u16) {
        match self {
            Self::NetUnreachable => (3, 0, 0),
            Self::HostUnreachable => (3, 1, 0),
            Self::PortUnreachable => (3, 3, 0),
            // RFC 1191 section 4: the next hop's MTU.
            Self::TooBig(mtu) => (3, 4, mtu),
            Self::TimeExceeded => (11, 0, 0),
        }
    }
}
