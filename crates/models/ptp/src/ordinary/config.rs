//! Settings of an ordinary clock, and states of its port.

use std::fmt;

use timeloom_wire::{ClockIdentity, ClockQuality, TimeInterval};

use crate::Profile;
use crate::security::Security;

/// State of the port (those states of IEEE 1588-2008, table 10, that a single port needs).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PortState {
    /// Waits for Announces of a master.
    Listening,
    /// Sends Sync messages.
    Master,
    /// Follows a master.
    Slave,
    /// Neither master nor slave, because a better clock of class 1 to 127 is master.
    Passive,
}

impl fmt::Display for PortState {
    /// Formats the state by its name in IEEE 1588, in lower case.
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
    /// Identity of the clock; its port has number 1.
    pub clock: ClockIdentity,
    /// Profile of the clock.
    pub profile: Profile,
    /// Quality that the clock announces as grandmaster.
    pub quality: ClockQuality,
    /// True if the clock never becomes master.
    pub slave_only: bool,
    /// True if the clock is never adjusted and offsets are only reported.
    pub free_running: bool,
    /// True if timestamps come from software; the servo then has smaller constants.
    pub software_stamps: bool,
    /// TAI minus UTC in seconds, announced as valid.
    pub utc_offset_s: i16,
    /// True if timestamps are TAI; the clock announces that. If false, the clock announces an
    /// arbitrary timescale, for example because the civil clock provides its timestamps. TAI of a
    /// master is then converted with the master's `currentUtcOffset`.
    pub ptp_timescale: bool,
    /// Own key and public keys, if messages are signed.
    pub security: Option<Security>,
    /// Greatest deviation of an arrival time from the clock's own prediction that does not count as
    /// a delay attack (only for slaves with keys).
    pub jump_bound: TimeInterval,
}

impl OrdinaryConfig {
    /// Returns the settings of a clock that may be master or slave.
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
