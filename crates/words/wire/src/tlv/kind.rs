//! `tlvType` (IEEE 1588-2008, table 34; 2019, table 52).

/// Type of a TLV. This is a number and not an enum, because TLVs of unknown types are forwarded.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct TlvType(pub u16);

macro_rules! kinds {
    ($($(#[$doc:meta])* $name:ident = $value:literal,)*) => {
        impl TlvType {
            $($(#[$doc])* pub const $name: Self = Self($value);)*

            /// Returns the name of this type in the standard; `None` for types that are not listed
            /// here.
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
    /// Request for unicast messages.
    REQUEST_UNICAST_TRANSMISSION = 0x0004,
    /// Grant of unicast messages for a limited time.
    GRANT_UNICAST_TRANSMISSION = 0x0005,
    /// Request to end unicast messages.
    CANCEL_UNICAST_TRANSMISSION = 0x0006,
    /// Acknowledgement that unicast messages have ended.
    ACKNOWLEDGE_CANCEL_UNICAST_TRANSMISSION = 0x0007,
    /// Boundary clocks that an Announce has passed.
    PATH_TRACE = 0x0008,
    /// Offset of a local time from PTP time, and its next change.
    ALTERNATE_TIME_OFFSET_INDICATOR = 0x0009,
    /// Integrity check of a message (annex K of 2008, experimental).
    AUTHENTICATION_2008 = 0x2000,
    /// Challenge and response for a security association (annex K of 2008, experimental).
    AUTHENTICATION_CHALLENGE = 0x2001,
    /// Update of a security association (annex K of 2008, experimental).
    SECURITY_ASSOCIATION_UPDATE = 0x2002,
    /// Cumulative frequency offset from the grandmaster (annex L of 2008, experimental).
    CUM_FREQ_SCALE_FACTOR_OFFSET = 0x2003,
    /// Extension of an organisation that boundary clocks propagate (2019).
    ORGANIZATION_EXTENSION_PROPAGATE = 0x4000,
    /// Extension of an organisation that boundary clocks do not propagate (2019).
    ORGANIZATION_EXTENSION_DO_NOT_PROPAGATE = 0x8000,
    /// Parameters of layer-1 synchronisation, for the high-accuracy profile (2019).
    L1_SYNC = 0x8001,
    /// Transport and delay mechanisms that a port supports (2019).
    PORT_COMMUNICATION_AVAILABILITY = 0x8002,
    /// Network address of the sending port (2019).
    PROTOCOL_ADDRESS = 0x8003,
    /// Timestamps of the Syncs that a slave received (2019).
    SLAVE_RX_SYNC_TIMING_DATA = 0x8004,
    /// Offsets and delays that a slave computed from Syncs (2019).
    SLAVE_RX_SYNC_COMPUTED_DATA = 0x8005,
    /// Timestamps of the event messages that a slave sent (2019).
    SLAVE_TX_EVENT_TIMESTAMPS = 0x8006,
    /// Ratio of the grandmaster's frequency to the sender's (2019).
    CUMULATIVE_RATE_RATIO = 0x8007,
    /// Padding that makes a message longer (2019).
    PAD = 0x8008,
    /// Message authentication code (2019, 16.14).
    AUTHENTICATION = 0x8009,
}

impl TlvType {
    /// Returns true if the value of TLVs of this type starts with an organisation's identifier.
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
