//! The `flagField` of the common header.

/// The two octets of `flagField` (IEEE 1588-2008, table 20); octet 0 is the
/// high byte. Unknown bits are kept, so that forwarding does not lose them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Flags(pub u16);

impl Flags {
    /// Sent by an alternate master.
    pub const ALTERNATE_MASTER: Self = Self(0x0100);
    /// A Follow_Up (or Pdelay_Resp_Follow_Up) will carry the precise time.
    pub const TWO_STEP: Self = Self(0x0200);
    /// Sent to a unicast address.
    pub const UNICAST: Self = Self(0x0400);
    /// First bit for profiles.
    pub const PROFILE_1: Self = Self(0x2000);
    /// Second bit for profiles.
    pub const PROFILE_2: Self = Self(0x4000);
    /// The last minute of the day has 61 seconds.
    pub const LEAP_61: Self = Self(0x0001);
    /// The last minute of the day has 59 seconds.
    pub const LEAP_59: Self = Self(0x0002);
    /// `currentUtcOffset` is known to be correct.
    pub const UTC_OFFSET_VALID: Self = Self(0x0004);
    /// The timescale is PTP (TAI), not arbitrary.
    pub const PTP_TIMESCALE: Self = Self(0x0008);
    /// Time is traceable to a primary reference.
    pub const TIME_TRACEABLE: Self = Self(0x0010);
    /// Frequency is traceable to a primary reference.
    pub const FREQUENCY_TRACEABLE: Self = Self(0x0020);

    /// Returns true if all bits of `other` are set.
    pub const fn has(self, other: Self) -> bool {
        self.0 & other.0 == other.0
    }

    /// Returns these bits and those of `other`.
    pub const fn with(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    /// Returns these bits without those of `other`.
    pub const fn without(self, other: Self) -> Self {
        Self(self.0 & !other.0)
    }
}
