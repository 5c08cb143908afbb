//! Profiles as data.

use timeloom_time::Duration;
use timeloom_wire::VlanTag;

/// Method of delay measurement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DelayMechanism {
    /// Between slave and master and back, over everything in between.
    EndToEnd,
    /// On each link separately.
    PeerToPeer,
}

/// Edition of the IEEE_C37_238 TLV that an Announce must carry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PowerTlv {
    /// Together with ALTERNATE_TIME_OFFSET_INDICATOR.
    V2011,
    /// Alone.
    V2017,
}

/// Every profile with its name for users.
pub const PROFILES: [(&str, Profile); 5] = [
    ("default", Profile::DEFAULT),
    ("p2p", Profile::DEFAULT_PEER_TO_PEER),
    ("61850-9-3", Profile::POWER_UTILITY),
    ("c37.238-2011", Profile::C37_238_2011),
    ("c37.238-2017", Profile::C37_238_2017),
];

/// Settings of a profile. A program may change a field.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Profile {
    /// Name for users and records.
    pub name: &'static str,
    /// `domainNumber`.
    pub domain: u8,
    /// `sdoId`; its top four bits are `transportSpecific` of 2008.
    pub sdo_id: u16,
    /// Method of delay measurement.
    pub delay: DelayMechanism,
    /// log2 of seconds between Announces.
    pub log_announce_interval: i8,
    /// log2 of seconds between Syncs.
    pub log_sync_interval: i8,
    /// log2 of seconds between delay requests, of either mechanism.
    pub log_delay_interval: i8,
    /// Announce intervals of silence after which a master is given up.
    pub announce_receipt_timeout: u8,
    /// 802.1Q tag of sent messages.
    pub vlan: Option<VlanTag>,
    /// TLV that Announces must carry.
    pub power: Option<PowerTlv>,
    /// `priority1` and `priority2` of a clock that may be grandmaster.
    pub priority: (u8, u8),
    /// Inaccuracy that a transparent clock adds in Announces, in ns.
    pub hop_inaccuracy_ns: u32,
    /// Number of hops for which the profile is designed.
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

    /// Returns the interval between Announces.
    pub const fn announce_interval(&self) -> Duration {
        from_log(self.log_announce_interval)
    }

    /// Returns the interval between Syncs.
    pub const fn sync_interval(&self) -> Duration {
        from_log(self.log_sync_interval)
    }

    /// Returns the interval between delay requests.
    pub const fn delay_interval(&self) -> Duration {
        from_log(self.log_delay_interval)
    }

    /// Returns the silence after which a master is given up (9.2.6.11).
    pub const fn announce_timeout(&self) -> Duration {
        Duration::from_ns(
            self.announce_interval()
                .as_ns()
                .saturating_mul(self.announce_receipt_timeout as i64),
        )
    }
}

/// Returns 2^`log` seconds, for −20 to 30.
const fn from_log(log: i8) -> Duration {
    if log >= 0 {
        Duration::from_s(1 << (if log > 30 { 30 } else { log }))
    } else {
        Duration::from_ns(1_000_000_000 >> (if log < -20 { 20 } else { -log }))
    }
}
