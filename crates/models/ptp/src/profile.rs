//! Profiles as data.

use timeloom_time::Duration;
use timeloom_wire::VlanTag;

/// How delay is measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DelayMechanism {
    /// Slave to master and back, over everything in between.
    EndToEnd,
    /// Each link for itself.
    PeerToPeer,
}

/// Which edition's IEEE_C37_238 TLV an Announce must carry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PowerTlv {
    /// Together with ALTERNATE_TIME_OFFSET_INDICATOR.
    V2011,
    /// Alone.
    V2017,
}

/// Every profile by the name that users know it by.
pub const PROFILES: [(&str, Profile); 5] = [
    ("default", Profile::DEFAULT),
    ("p2p", Profile::DEFAULT_PEER_TO_PEER),
    ("61850-9-3", Profile::POWER_UTILITY),
    ("c37.238-2011", Profile::C37_238_2011),
    ("c37.238-2017", Profile::C37_238_2017),
];

/// Everything a profile settles. A program may change a field; then it is its
/// own profile.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Profile {
    /// For people and records.
    pub name: &'static str,
    /// `domainNumber`.
    pub domain: u8,
    /// `sdoId`; its top four bits are `transportSpecific` of 2008.
    pub sdo_id: u16,
    /// How delay is measured.
    pub delay: DelayMechanism,
    /// log2 of seconds between Announces.
    pub log_announce_interval: i8,
    /// log2 of seconds between Syncs.
    pub log_sync_interval: i8,
    /// log2 of seconds between delay requests, of either mechanism.
    pub log_delay_interval: i8,
    /// Announce intervals of silence until a master is given up.
    pub announce_receipt_timeout: u8,
    /// The tag that messages are sent with.
    pub vlan: Option<VlanTag>,
    /// The TLV that Announces must carry.
    pub power: Option<PowerTlv>,
    /// `priority1` and `priority2` of a clock that may be grandmaster.
    pub priority: (u8, u8),
    /// What a transparent clock adds to the Announce's inaccuracy, in ns.
    pub hop_inaccuracy_ns: u32,
    /// Hops the profile is made for.
    pub max_hops: u8,
}

impl Profile {
    /// Annex J.3 of IEEE 1588-2008: delay request-response, Sync every second.
    pub const DEFAULT: Self = Self {
        name: "default",
        domain: 0,
        sdo_id: 0,
        delay: DelayMechanism::EndToEnd,
        log_announce_interval: 1,
        log_sync_interval: 0,
        log_delay_interval: 0,
        announce_receipt_timeout: 3,
        vlan: None,
        power: None,
        priority: (128, 128),
        hop_inaccuracy_ns: 0,
        max_hops: 16,
    };

    /// Annex J.4: as the default, with peer delay.
    pub const DEFAULT_PEER_TO_PEER: Self = Self {
        name: "default, peer to peer",
        delay: DelayMechanism::PeerToPeer,
        ..Self::DEFAULT
    };

    /// IEC/IEEE 61850-9-3:2016: everything every second, peer to peer, no tag.
    pub const POWER_UTILITY: Self = Self {
        name: "IEC/IEEE 61850-9-3",
        log_announce_interval: 0,
        hop_inaccuracy_ns: 50,
        max_hops: 15,
        ..Self::DEFAULT_PEER_TO_PEER
    };

    /// IEEE C37.238-2011: tagged with priority 4, two TLVs in every Announce.
    pub const C37_238_2011: Self = Self {
        name: "IEEE C37.238-2011",
        vlan: Some(VlanTag::POWER_PROFILE),
        power: Some(PowerTlv::V2011),
        max_hops: 16,
        ..Self::POWER_UTILITY
    };

    /// IEEE C37.238-2017: domain 254, tag optional, one TLV.
    pub const C37_238_2017: Self = Self {
        name: "IEEE C37.238-2017",
        domain: 254,
        power: Some(PowerTlv::V2017),
        max_hops: 16,
        ..Self::POWER_UTILITY
    };

    /// Between Announces.
    pub const fn announce_interval(&self) -> Duration {
        from_log(self.log_announce_interval)
    }

    /// Between Syncs.
    pub const fn sync_interval(&self) -> Duration {
        from_log(self.log_sync_interval)
    }

    /// Between delay requests.
    pub const fn delay_interval(&self) -> Duration {
        from_log(self.log_delay_interval)
    }

    /// Silence until a master is given up (9.2.6.11).
    pub const fn announce_timeout(&self) -> Duration {
        Duration::from_ns(
            self.announce_interval()
                .as_ns()
                .saturating_mul(self.announce_receipt_timeout as i64),
        )
    }
}

/// 2^`log` seconds, for −20 to 30.
const fn from_log(log: i8) -> Duration {
    if log >= 0 {
        Duration::from_s(1 << (if log > 30 { 30 } else { log }))
    } else {
        Duration::from_ns(1_000_000_000 >> (if log < -20 { 20 } else { -log }))
    }
}
