//! TLVs (type, length, value): the optional parts of a message (IEEE 1588-2008, clause 14).

mod alternate_time_offset;
mod authentication;
mod kind;
mod list;
mod management;
mod organization;
mod path_trace;
mod power;
mod signed;
mod signed_entry;
mod text;
mod unicast;

pub use alternate_time_offset::AlternateTimeOffset;
pub use authentication::Authentication;
pub use kind::TlvType;
pub use list::{Tlv, TlvWriter, Tlvs};
pub use management::{ManagementErrorStatus, ManagementTlv};
pub use organization::OrganizationExtension;
pub use path_trace::PathTrace;
pub use power::{C37_238_ORGANIZATION, PowerProfile, PowerProfileVersion};
pub use signed::{SignedFlags, SignedHead, SignedTlv, SubType, Suite};
pub use signed_entry::{EntryForm, INDEX_BESIDE_PORT, SignedEntry, Signer};
pub use text::PtpText;
pub use unicast::{UnicastCancel, UnicastGrant, UnicastRequest};

use crate::ParseError;

/// A TLV whose value has been decoded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TlvBody<'a> {
    /// MANAGEMENT.
    Management(ManagementTlv<'a>),
    /// MANAGEMENT_ERROR_STATUS.
    ManagementErrorStatus(ManagementErrorStatus<'a>),
    /// REQUEST_UNICAST_TRANSMISSION.
    UnicastRequest(UnicastRequest),
    /// GRANT_UNICAST_TRANSMISSION.
    UnicastGrant(UnicastGrant),
    /// CANCEL_UNICAST_TRANSMISSION.
    UnicastCancel(UnicastCancel),
    /// ACKNOWLEDGE_CANCEL_UNICAST_TRANSMISSION.
    UnicastCancelled(UnicastCancel),
    /// PATH_TRACE.
    PathTrace(PathTrace<'a>),
    /// ALTERNATE_TIME_OFFSET_INDICATOR.
    AlternateTimeOffset(AlternateTimeOffset<'a>),
    /// IEEE_C37_238 of the power profile, edition 2011 or 2017.
    PowerProfile(PowerProfile),
    /// ORGANIZATION_EXTENSION of an organisation other than IEEE C37.238.
    Organization(OrganizationExtension<'a>),
    /// AUTHENTICATION of IEEE 1588-2019.
    Authentication(Authentication<'a>),
    /// A TLV of any other type, not decoded. These include the experimental security TLVs of annex
    /// K, and CUM_FREQ_SCALE_FACTOR_OFFSET.
    Other(Tlv<'a>),
}

impl<'a> TlvBody<'a> {
    /// Decodes `tlv`; fails if the value is not in the format of its type.
    pub fn parse(tlv: Tlv<'a>) -> Result<Self, ParseError> {
        let value = tlv.value;
        Ok(match tlv.kind {
            TlvType::MANAGEMENT => Self::Management(ManagementTlv::parse(value)?),
            TlvType::MANAGEMENT_ERROR_STATUS => {
                Self::ManagementErrorStatus(ManagementErrorStatus::parse(value)?)
            }
            TlvType::REQUEST_UNICAST_TRANSMISSION => {
                Self::UnicastRequest(UnicastRequest::parse(value)?)
            }
            TlvType::GRANT_UNICAST_TRANSMISSION => Self::UnicastGrant(UnicastGrant::parse(value)?),
            TlvType::CANCEL_UNICAST_TRANSMISSION => {
                Self::UnicastCancel(UnicastCancel::parse(value)?)
            }
            TlvType::ACKNOWLEDGE_CANCEL_UNICAST_TRANSMISSION => {
                Self::UnicastCancelled(UnicastCancel::parse(value)?)
            }
            TlvType::PATH_TRACE => Self::PathTrace(PathTrace::parse(value)?),
            TlvType::ALTERNATE_TIME_OFFSET_INDICATOR => {
                Self::AlternateTimeOffset(AlternateTimeOffset::parse(value)?)
            }
            TlvType::ORGANIZATION_EXTENSION => match PowerProfile::parse(value) {
                Some(power) => Self::PowerProfile(power?),
                None => Self::Organization(OrganizationExtension::parse(value)?),
            },
            kind if kind.is_organization() => {
                Self::Organization(OrganizationExtension::parse(value)?)
            }
            TlvType::AUTHENTICATION => Self::Authentication(Authentication::parse(value)?),
            _ => Self::Other(tlv),
        })
    }
}
