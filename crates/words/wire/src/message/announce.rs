//! Announce (IEEE 1588-2008, 13.5).

use crate::{ClockIdentity, ClockQuality, EmitError, ParseError, Reader, Timestamp, Writer};

/// Identity and quality of a master, as compared by the best master clock algorithm.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Announce {
    /// Estimate of the departure time; may be 0.
    pub origin: Timestamp,
    /// TAI minus UTC, in seconds.
    pub current_utc_offset: i16,
    /// `priority1`: compared first; the lower value is better.
    pub grandmaster_priority1: u8,
    /// Quality of the grandmaster's clock.
    pub grandmaster_quality: ClockQuality,
    /// `priority2`: compared after the quality; the lower value is better.
    pub grandmaster_priority2: u8,
    /// Identity of the grandmaster: compared last.
    pub grandmaster: ClockIdentity,
    /// Number of boundary clocks between the grandmaster and the sender.
    pub steps_removed: u16,
    /// `timeSource`: 0x20 is GPS, 0x40 PTP, 0x50 NTP, 0xA0 an internal oscillator.
    pub time_source: u8,
}

impl Announce {
    pub(super) fn parse(from: &mut Reader<'_>) -> Result<Self, ParseError> {
        let origin = Timestamp::parse(from)?;
        let current_utc_offset = from.u16()?.cast_signed();
        from.take(1)?;
        Ok(Self {
            origin,
            current_utc_offset,
            grandmaster_priority1: from.u8()?,
            grandmaster_quality: ClockQuality::parse(from)?,
            grandmaster_priority2: from.u8()?,
            grandmaster: ClockIdentity::parse(from)?,
            steps_removed: from.u16()?,
            time_source: from.u8()?,
        })
    }

    pub(super) fn emit(&self, to: &mut Writer<'_>) -> Result<(), EmitError> {
        self.origin.emit(to)?;
        to.u16(self.current_utc_offset.cast_unsigned())?;
        to.u8(0)?;
        to.u8(self.grandmaster_priority1)?;
        self.grandmaster_quality.emit(to)?;
        to.u8(self.grandmaster_priority2)?;
        self.grandmaster.emit(to)?;
        to.u16(self.steps_removed)?;
        to.u8(self.time_source)
    }
}
