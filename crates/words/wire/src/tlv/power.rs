//! IEEE_C37_238: the TLV that the power profile adds to Announce messages.

use crate::{EmitError, ParseError, Reader, Writer};

/// `organizationId` of IEEE C37.238.
pub const C37_238_ORGANIZATION: [u8; 3] = [0x1c, 0x12, 0x9d];

/// Edition of the TLV, with the fields that differ.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PowerProfileVersion {
    /// Edition 2011 (sub-type 1): the inaccuracies of grandmaster and network are separate, both in
    /// ns.
    V2011 {
        /// `grandmasterTimeInaccuracy`, in ns.
        grandmaster_ns: u32,
        /// `networkTimeInaccuracy`, in ns; each transparent clock adds its own contribution.
        network_ns: u32,
    },
    /// Edition 2017 (sub-type 2): a single inaccuracy, the sum, in ns.
    V2017 {
        /// `totalTimeInaccuracy`, in ns; each transparent clock adds its own contribution.
        total_ns: u32,
    },
}

/// Short identifier of the grandmaster, and the inaccuracy of its time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PowerProfile {
    /// `grandmasterID`, 3 to 254.
    pub grandmaster_id: u16,
    /// Edition of the TLV and its inaccuracies.
    pub version: PowerProfileVersion,
}

impl PowerProfile {
    /// Value of an inaccuracy that is out of range or not known.
    pub const UNKNOWN_NS: u32 = u32::MAX;

    /// Parses the value of an ORGANIZATION_EXTENSION; `None` if it belongs to another organisation.
    /// IEEE C37.238-2011 states a length of 12, while the rule of IEEE 1588 gives 18. Both are
    /// accepted: octets after the last field are not checked.
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

    /// Writes the value of the TLV: 18 octets, the only length that ptp4l accepts.
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

    /// Returns the TLV that a transparent clock forwards: `added_ns` nanoseconds are added to its
    /// inaccuracy. "Unknown" stays unchanged, and a sum that would overflow becomes "unknown".
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
