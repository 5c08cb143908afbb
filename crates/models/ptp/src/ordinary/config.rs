//! What an ordinary clock is, and the states of its port.

use std::fmt;

use timeloom_wire::{ClockIdentity, ClockQuality, TimeInterval};

use crate::Profile;
use crate::security::Security;

/// State of the port (IEEE 1588-2008, table 10, as far as one port needs it).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PortState {
    /// Waits for Announces.
    Listening,
    /// Sends Sync.
    Master,
    /// Follows a master.
    Slave,
    /// Leads nobody, follows nobody: a better clock of class 1 to 127 does.
    Passive,
}

impl fmt::Display for PortState {
    /// The word of IEEE 1588, in small letters.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Listening => "listening",
            Self::Master => "master",
            Self::Slave => "slave",
            Self::Passive => "passive",
        })
    }
}

/// What an ordinary clock is.
#[derive(Clone, Debug)]
pub struct OrdinaryConfig {
    /// Its identity; the port is number 1.
    pub clock: ClockIdentity,
    /// Its profile.
    pub profile: Profile,
    /// How good it is.
    pub quality: ClockQuality,
    /// Never lead.
    pub slave_only: bool,
    /// Never touch the clock, only report.
    pub free_running: bool,
    /// Stamps come from software: a softer servo.
    pub software_stamps: bool,
    /// TAI − UTC in seconds, announced as valid.
    pub utc_offset_s: i16,
    /// Stamps are TAI, and announced as such; otherwise the timescale is
    /// announced as arbitrary, as when the civil clock stamps, and a master
    /// that tells TAI is understood by its `currentUtcOffset`.
    pub ptp_timescale: bool,
    /// Key and ring, when time is authenticated.
    pub security: Option<Security>,
    /// How far arrival may jump against the clock's own past before the jump
    /// counts as a delay attack (authenticated slaves only).
    pub jump_bound: TimeInterval,
}

impl OrdinaryConfig {
    /// A clock that may lead and may follow.
    pub const fn new(clock: ClockIdentity, profile: Profile) -> Self {
        let quality = ClockQuality {
            class: 248,
            accuracy: 0xfe,
            offset_scaled_log_variance: 0xffff,
        };
        Self {
            clock,
            profile,
            quality,
            slave_only: false,
            free_running: false,
            software_stamps: false,
            utc_offset_s: 37,
            ptp_timescale: true,
            security: None,
            jump_bound: TimeInterval::from_ns(100_000),
        }
    }
}
