//! The `flagField` of the common header.

/// The two octets of `flagField` (IEEE 1588-2008, table 20); octet 0 is the high byte. Unknown bits
/// are preserved, so that a forwarded message keeps them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Flags(pub u16);

impl Flags {
    /// The sender is an alternate master.
    pub const ALTERNATE_MASTER: Self = Self(0x0100);
    /// A Follow_Up (or Pdelay_Resp_Follow_Up) with the precise time will follow this message.
    pub const TWO_STEP: Self = Self(0x0200);
    /// The message was sent to a unicast address.
    pub const UNICAST: Self = Self(0x0400);
    /// First bit whose meaning a profile defines.
    pub const PROFILE_1: Self = Self(0x2000);
    /// Second bit whose meaning a profile defines.
    pub const PROFILE_2: Self = Self(0x4000);
    /// The last minute of the current UTC day has 61 seconds.
    pub const LEAP_61: Self = Self(0x0001);
    /// The last minute of the current UTC day has 59 seconds.
    pub const LEAP_59: Self = Self(0x0002);
    /// `currentUtcOffset` is known to be correct.
    pub const UTC_OFFSET_VALID: Self = Self(0x0004);
    /// The timescale is PTP's (TAI), not an arbitrary one.
    pub const PTP_TIMESCALE: Self = Self(0x0008);
    /// The time is traceable to a primary reference.
    pub const TIME_TRACEABLE: Self = Self(0x0010);
    /// The frequency is traceable to a primary reference.
    pub const FREQUENCY_TRACEABLE: Self = Self(0x0020);

    /// Returns true if all bits of `other` are set.
    pub const fn has(self, other: Self) -> bool {
        self.0 & other.0 == other.0
    }

    /// Returns the union of the bits of both values.
    pub const fn with(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    /// Returns these bits without the bits of `other`.
    pub const fn without(self, other: Self) -> Self {
        Self(self.0 & !other.0)
    }
}
