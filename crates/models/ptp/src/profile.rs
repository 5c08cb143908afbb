//! PTP profiles as values of a structure.

use timeloom_time::Duration;
use timeloom_wire::VlanTag;

/// Mechanism by which delays are measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DelayMechanism {
    /// Between slave and master, over the whole path.
    EndToEnd,
    /// On each link, between two neighbours.
    PeerToPeer,
}

/// Edition of the IEEE_C37_238 TLV that each Announce must contain.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PowerTlv {
    /// Edition 2011, which also requires ALTERNATE_TIME_OFFSET_INDICATOR.
    V2011,
    /// Edition 2017, without a further TLV.
    V2017,
}

/// All profiles, with the names by which users select them.
pub const PROFILES: [(&str, Profile); 5] = [
    ("default", Profile::DEFAULT),
    ("p2p", Profile::DEFAULT_PEER_TO_PEER),
    ("61850-9-3", Profile::POWER_UTILITY),
    ("c37.238-2011", Profile::C37_238_2011),
    ("c37.238-2017", Profile::C37_238_2017),
];

/// Settings of a profile. Programs may change single fields.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Profile {
    /// Name of the profile for users and records.
    pub name: &'static str,
    /// `domainNumber` of sent messages; messages of other domains are ignored.
    pub domain: u8,
    /// `sdoId`; its top four bits are `transportSpecific` of 2008.
    pub sdo_id: u16,
    /// Mechanism by which delays are measured.
    pub delay: DelayMechanism,
    /// Interval between Announces, as log2 of seconds.
    pub log_announce_interval: i8,
    /// Interval between Syncs, as log2 of seconds.
    pub log_sync_interval: i8,
    /// Interval between delay requests of either mechanism, as log2 of seconds.
    pub log_delay_interval: i8,
    /// Number of announce intervals without an Announce after which a master is no longer followed.
    pub announce_receipt_timeout: u8,
    /// 802.1Q tag of sent messages; `None` for untagged ones.
    pub vlan: Option<VlanTag>,
    /// TLV that each Announce must contain; `None` for none.
    pub power: Option<PowerTlv>,
    /// `priority1` and `priority2` of a clock that may become grandmaster.
    pub priority: (u8, u8),
    /// Inaccuracy in ns that a transparent clock adds to the power profile's TLV in Announces.
    pub hop_inaccuracy_ns: u32,
    /// Greatest number of hops for which the profile is designed.
    pub max_hops: u8,
}

impl Profile {
    /// Default profile of IEEE 1588-2008, annex J.3: delay request-response, a Sync every second.
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

    /// Default profile of annex J.4: as [`Self::DEFAULT`], but with the peer-delay mechanism.
    pub const DEFAULT_PEER_TO_PEER: Self = Self {
        name: "default, peer to peer",
        delay: DelayMechanism::PeerToPeer,
        ..Self::DEFAULT
    };

    /// IEC/IEEE 61850-9-3:2016: peer delay, all messages once per second, no tag.
    pub const POWER_UTILITY: Self = Self {
        name: "IEC/IEEE 61850-9-3",
        log_announce_interval: 0,
        hop_inaccuracy_ns: 50,
        max_hops: 15,
        ..Self::DEFAULT_PEER_TO_PEER
    };

    /// IEEE C37.238-2011: frames tagged with priority 4, two TLVs in every Announce.
    pub const C37_238_2011: Self = Self {
        name: "IEEE C37.238-2011",
        vlan: Some(VlanTag::POWER_PROFILE),
        power: Some(PowerTlv::V2011),
        max_hops: 16,
        ..Self::POWER_UTILITY
    };

    /// IEEE C37.238-2017: domain 254, optional tag, one TLV in every Announce.
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

    /// Returns the time without an Announce after which a master is no longer followed (9.2.6.11).
    pub const fn announce_timeout(&self) -> Duration {
        Duration::from_ns(
            self.announce_interval()
                .as_ns()
                .saturating_mul(self.announce_receipt_timeout as i64),
        )
    }
}

/// Returns 2^`log` seconds; `log` is limited to −20 … 30.
const fn from_log(log: i8) -> Duration {
    if log >= 0 {
        Duration::from_s(1 << (if log > 30 { 30 } else { log }))
    } else {
        Duration::from_ns(1_000_000_000 >> (if log < -20 { 20 } else { -log }))
    }
}
