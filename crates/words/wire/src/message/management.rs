//! Management (IEEE 1588-2008, 15.4.1): the envelope of a management TLV.

use crate::{EmitError, ParseError, PortIdentity, Reader, Writer};

/// Action of a management message (table 38).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ManagementAction {
    /// Read a data set.
    #[default]
    Get,
    /// Write a data set.
    Set,
    /// Response to Get or Set.
    Response,
    /// Execute a command.
    Command,
    /// Response to Command.
    Acknowledge,
    /// Reserved values 5 to 15, kept.
    Reserved(u8),
}

impl ManagementAction {
    const fn from_nibble(nibble: u8) -> Self {
        match nibble & 0x0f {
            0 => Self::Get,
            1 => Self::Set,
            2 => Self::Response,
            3 => Self::Command,
            4 => Self::Acknowledge,
            other => Self::Reserved(other),
        }
    }

    const fn nibble(self) -> u8 {
        match self {
            Self::Get => 0,
            Self::Set => 1,
            Self::Response => 2,
            Self::Command => 3,
            Self::Acknowledge => 4,
            Self::Reserved(value) => value & 0x0f,
        }
    }
}

/// Addressing and action; the data set is in the TLV that follows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Management {
    /// Addressed port.
    pub target: PortIdentity,
    /// Initial number of hops that the message may travel.
    pub starting_boundary_hops: u8,
    /// Remaining number of hops.
    pub boundary_hops: u8,
    /// Requested action.
    pub action: ManagementAction,
}

impl Management {
    pub(super) fn parse(from: &mut Reader<'_>) -> Result<Self, ParseError> {
        let management = Self {
            target: PortIdentity::parse(from)?,
            starting_boundary_hops: from.u8()?,
            boundary_hops: from.u8()?,
            action: ManagementAction::from_nibble(from.u8()?),
        };
        from.take(1)?;
        Ok(management)
    }

    pub(super) fn emit(&self, to: &mut Writer<'_>) -> Result<(), EmitError> {
        self.target.emit(to)?;
        to.u8(self.starting_boundary_hops)?;
        to.u8(self.boundary_hops)?;
        to.u8(self.action.nibble())?;
        to.u8(0)
    }
}
