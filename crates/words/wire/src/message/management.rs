//! Management (IEEE 1588-2008, 15.4.1): the message that carries a management TLV.

use crate::{EmitError, ParseError, PortIdentity, Reader, Writer};

/// Action of a management message (table 38).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ManagementAction {
    /// Reads a data set.
    #[default]
    Get,
    /// Writes a data set.
    Set,
    /// Responds to a Get or Set.
    Response,
    /// Executes a command.
    Command,
    /// Acknowledges a Command.
    Acknowledge,
    /// A reserved value, 5 to 15, preserved for forwarding.
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

/// Target and action of a management message. The data set is in the TLV that follows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Management {
    /// Port to which the message is addressed.
    pub target: PortIdentity,
    /// Number of boundary clocks that the message may pass, as set by the sender.
    pub starting_boundary_hops: u8,
    /// Number of boundary clocks that the message may still pass.
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
