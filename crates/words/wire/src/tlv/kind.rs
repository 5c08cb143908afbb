//! `tlvType` (IEEE 1588-2008, table 34; 2019, table 52).

/// The type of a TLV. A number, not an enum: unknown types are forwarded.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct TlvType(pub u16);

macro_rules! kinds {
    ($($(#[$doc:meta])* $name:ident = $value:literal,)*) => {
        impl TlvType {
            $($(#[$doc])* pub const $name: Self = Self($value);)*

            /// Name in the standard, or `None` for a type without a name here.
            pub const fn name(self) -> Option<&'static str> {
                match self { $(Self::$name => Some(stringify!($name)),)* _ => None }
            }
        }
    };
}

kinds! {
    /// A data set or command.
    MANAGEMENT = 0x0001,
    /// Reason for the failure of a management request.
    MANAGEMENT_ERROR_STATUS = 0x0002,
    /// Extension of an organisation.
    ORGANIZATION_EXTENSION = 0x0003,
    /// Request for unicast transmission.
    REQUEST_UNICAST_TRANSMISSION = 0x0004,
    /// Grant of unicast transmission for a limited time.
    GRANT_UNICAST_TRANSMISSION = 0x0005,
    /// End of unicast transmission.
    CANCEL_UNICAST_TRANSMISSION = 0x0006,
    /// Acknowledgement of the end.
    ACKNOWLEDGE_CANCEL_UNICAST_TRANSMISSION = 0x0007,
    /// Boundary clocks passed.
    PATH_TRACE = 0x0008,
    /// A local time in addition to PTP's.
    ALTERNATE_TIME_OFFSET_INDICATOR = 0x0009,
    /// Annex K of 2008, experimental.
    AUTHENTICATION_2008 = 0x2000,
    /// Annex K of 2008, experimental.
    AUTHENTICATION_CHALLENGE = 0x2001,
    /// Annex K of 2008, experimental.
    SECURITY_ASSOCIATION_UPDATE = 0x2002,
    /// Annex L of 2008, experimental.
    CUM_FREQ_SCALE_FACTOR_OFFSET = 0x2003,
    /// 2019: extension of an organisation, which boundary clocks propagate.
    ORGANIZATION_EXTENSION_PROPAGATE = 0x4000,
    /// 2019: extension of an organisation, which boundary clocks do not propagate.
    ORGANIZATION_EXTENSION_DO_NOT_PROPAGATE = 0x8000,
    /// 2019.
    L1_SYNC = 0x8001,
    /// 2019.
    PORT_COMMUNICATION_AVAILABILITY = 0x8002,
    /// 2019.
    PROTOCOL_ADDRESS = 0x8003,
    /// 2019.
    SLAVE_RX_SYNC_TIMING_DATA = 0x8004,
    /// 2019.
    SLAVE_RX_SYNC_COMPUTED_DATA = 0x8005,
    /// 2019.
    SLAVE_TX_EVENT_TIMESTAMPS = 0x8006,
    /// 2019.
    CUMULATIVE_RATE_RATIO = 0x8007,
    /// 2019: padding, to make a message longer.
    PAD = 0x8008,
    /// 2019, 16.14: a message authentication code.
    AUTHENTICATION = 0x8009,
}

impl TlvType {
    /// Returns true if the value starts with an organisation's identifier.
    pub const fn is_organization(self) -> bool {
        matches!(self.0, 0x0003 | 0x4000 | 0x8000)
    }
}

impl core::fmt::Debug for TlvType {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        match self.name() {
            Some(name) => f.write_str(name),
            None => write!(f, "0x{:04x}", self.0),
        }
    }
}
