//! Identities of clocks and of their ports.

use core::fmt;

use crate::{EmitError, MacAddress, ParseError, Reader, Writer};

/// The eight octets that identify a clock (IEEE 1588-2008, 7.5.2.2).
#[derive(Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ClockIdentity(pub [u8; 8]);

impl ClockIdentity {
    /// Identity of all ones, which addresses every clock in the target of a management message.
    pub const ALL: Self = Self([0xff; 8]);

    /// Returns the EUI-64 of a MAC address: FF FE is inserted in the middle (7.5.2.2.2).
    pub const fn from_mac(mac: MacAddress) -> Self {
        let [a, b, c, d, e, f] = mac.0;
        Self([a, b, c, 0xff, 0xfe, d, e, f])
    }

    /// Reads the identity's eight octets.
    pub fn parse(from: &mut Reader<'_>) -> Result<Self, ParseError> {
        from.array().map(Self)
    }

    /// Writes the identity's eight octets.
    pub fn emit(self, to: &mut Writer<'_>) -> Result<(), EmitError> {
        to.put(&self.0)
    }
}

impl fmt::Display for ClockIdentity {
    /// Formats the identity as ptp4l and pmc do: `aabbcc.fffe.ddeeff`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [a, b, c, d, e, g, h, i] = self.0;
        write!(
            f,
            "{a:02x}{b:02x}{c:02x}.{d:02x}{e:02x}.{g:02x}{h:02x}{i:02x}"
        )
    }
}

impl fmt::Debug for ClockIdentity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// Identity of one port of a clock (5.3.5).
#[derive(Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PortIdentity {
    /// Identity of the clock.
    pub clock: ClockIdentity,
    /// Port number, counted from 1; 0 addresses the clock as a whole.
    pub port: u16,
}

impl PortIdentity {
    /// Reads the identity's ten octets.
    pub fn parse(from: &mut Reader<'_>) -> Result<Self, ParseError> {
        Ok(Self {
            clock: ClockIdentity::parse(from)?,
            port: from.u16()?,
        })
    }

    /// Writes the identity's ten octets.
    pub fn emit(self, to: &mut Writer<'_>) -> Result<(), EmitError> {
        self.clock.emit(to)?;
        to.u16(self.port)
    }
}

impl fmt::Debug for PortIdentity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{}", self.clock, self.port)
    }
}
