//! Settings of an ordinary clock, and the states of its port.

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
    /// Neither master nor slave, because a better clock of class 1 to 127 is master.
    Passive,
}

impl fmt::Display for PortState {
    /// Formats the name from IEEE 1588, in small letters.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Listening => "listening",
            Self::Master => "master",
            Self::Slave => "slave",
            Self::Passive => "passive",
        })
    }
}

/// Settings of an ordinary clock.
#[derive(Clone, Debug)]
pub struct OrdinaryConfig {
    /// Its identity; the port is number 1.
    pub clock: ClockIdentity,
    /// Its profile.
    pub profile: Profile,
    /// Its quality.
    pub quality: ClockQuality,
    /// Never becomes master.
    pub slave_only: bool,
    /// Never adjusts the clock, only reports.
    pub free_running: bool,
    /// True if stamps come from software: the servo is softer.
    pub software_stamps: bool,
    /// TAI − UTC in seconds, announced as valid.
    pub utc_offset_s: i16,
    /// True if stamps are TAI, which is announced. Otherwise the timescale is announced as
    /// arbitrary, as when the civil clock stamps; TAI from a master is then converted with its
    /// `currentUtcOffset`.
    pub ptp_timescale: bool,
    /// Key and ring, if time is authenticated.
    pub security: Option<Security>,
    /// Largest jump of the arrival time against the clock's own history that does not count as a
    /// delay attack (authenticated slaves only).
    pub jump_bound: TimeInterval,
}

impl OrdinaryConfig {
    /// Creates settings of a clock that may be master or slave.
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
