//! Management (IEEE 1588-2008, 15.4.1): the envelope of a management TLV.

use crate::{EmitError, ParseError, PortIdentity, Reader, Writer};

/// What a management message wants (table 38).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ManagementAction {
    /// Tell me.
    #[default]
    Get,
    /// Take this.
    Set,
    /// The answer to Get or Set.
    Response,
    /// Do this.
    Command,
    /// The answer to Command.
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

/// Addressing and action; the data set travels in the TLV behind it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Management {
    /// Whom it concerns.
    pub target: PortIdentity,
    /// Hops the message may travel at the start.
    pub starting_boundary_hops: u8,
    /// Hops it may still travel.
    pub boundary_hops: u8,
    /// What it wants.
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
