//! IEEE_C37_238: TLV of the power profile in an Announce.

use crate::{EmitError, ParseError, Reader, Writer};

/// `organizationId` of IEEE C37.238.
pub const C37_238_ORGANIZATION: [u8; 3] = [0x1c, 0x12, 0x9d];

/// Edition of the TLV.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PowerProfileVersion {
    /// Sub-type 1: separate grandmaster and network inaccuracy, in ns.
    V2011 {
        /// `grandmasterTimeInaccuracy`.
        grandmaster_ns: u32,
        /// `networkTimeInaccuracy`; each transparent clock adds its own.
        network_ns: u32,
    },
    /// Sub-type 2: one sum, in ns.
    V2017 {
        /// `totalTimeInaccuracy`; each transparent clock adds its own.
        total_ns: u32,
    },
}

/// Grandmaster's short identifier and inaccuracy of the time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PowerProfile {
    /// `grandmasterID`, 3 to 254.
    pub grandmaster_id: u16,
    /// Fields of the edition.
    pub version: PowerProfileVersion,
}

impl PowerProfile {
    /// Inaccuracy that means "beyond the range, or not known".
    pub const UNKNOWN_NS: u32 = u32::MAX;

    /// Reads the value of an ORGANIZATION_EXTENSION; `None` if it is another organisation's. The
    /// 2011 text prints a length of 12, the rule of IEEE 1588 gives 18: the value's end is not
    /// checked, so both are accepted.
    pub fn parse(value: &[u8]) -> Option<Result<Self, ParseError>> {
        let sub_type = match value.strip_prefix(&C37_238_ORGANIZATION)? {
            [0, 0, sub_type @ (1 | 2), ..] => *sub_type,
            _ => return None,
        };
        let mut from = Reader::new(&value[6..]);
        let mut read = || {
            let grandmaster_id = from.u16()?;
            let (first, second) = (from.u32()?, from.u32()?);
            let version = match sub_type {
                1 => PowerProfileVersion::V2011 {
                    grandmaster_ns: first,
                    network_ns: second,
                },
                _ => PowerProfileVersion::V2017 { total_ns: second },
            };
            Ok(Self {
                grandmaster_id,
                version,
            })
        };
        Some(read().map_err(super::text::malformed))
    }

    /// Writes the value: 18 octets, the only length that ptp4l accepts.
    pub fn emit(&self, to: &mut Writer<'_>) -> Result<(), EmitError> {
        let (sub_type, first, second) = match self.version {
            PowerProfileVersion::V2011 {
                grandmaster_ns,
                network_ns,
            } => (1, grandmaster_ns, network_ns),
            PowerProfileVersion::V2017 { total_ns } => (2, 0, total_ns),
        };
        to.put(&C37_238_ORGANIZATION)?;
        to.put(&[0, 0, sub_type])?;
        to.u16(self.grandmaster_id)?;
        to.u32(first)?;
        to.u32(second)?;
        to.u16(0)
    }

    /// Returns the TLV as passed on by a transparent clock, with `added_ns` of inaccuracy added.
    /// "Unknown" stays unchanged, and a sum that would overflow becomes "unknown".
    pub const fn less_accurate(mut self, added_ns: u32) -> Self {
        match &mut self.version {
            PowerProfileVersion::V2011 {
                network_ns: sum, ..
            }
            | PowerProfileVersion::V2017 { total_ns: sum } => {
                *sum = sum.saturating_add(added_ns);
            }
        }
        self
    }
}
