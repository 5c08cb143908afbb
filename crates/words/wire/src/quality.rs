//! Quality of a clock, as the clock itself announces it.

use crate::{EmitError, ParseError, Reader, Writer};

/// Attribute `clockQuality` of a grandmaster (IEEE 1588-2008, 5.3.7 and 7.6.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ClockQuality {
    /// `clockClass`: 6 is locked, 7 holdover, 248 default, 255 slave only.
    pub class: u8,
    /// `clockAccuracy`: 0x20 is 25 ns, 0x21 is 100 ns, …, 0xFE is unknown.
    pub accuracy: u8,
    /// `offsetScaledLogVariance`; 0xFFFF means "not computed".
    pub offset_scaled_log_variance: u16,
}

impl Default for ClockQuality {
    fn default() -> Self {
        Self {
            class: 248,
            accuracy: 0xfe,
            offset_scaled_log_variance: 0xffff,
        }
    }
}

impl ClockQuality {
    /// Reads the quality's four octets.
    pub fn parse(from: &mut Reader<'_>) -> Result<Self, ParseError> {
        Ok(Self {
            class: from.u8()?,
            accuracy: from.u8()?,
            offset_scaled_log_variance: from.u16()?,
        })
    }

    /// Writes the quality's four octets.
    pub fn emit(self, to: &mut Writer<'_>) -> Result<(), EmitError> {
        to.u8(self.class)?;
        to.u8(self.accuracy)?;
        to.u16(self.offset_scaled_log_variance)
    }
}
