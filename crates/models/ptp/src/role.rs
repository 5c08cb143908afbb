//! Role of a clock in a PTP network.

/// Role of a PTP clock.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "schemars", derive(schemars::JsonSchema))]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[cfg_attr(feature = "serde", serde(rename_all = "lowercase"))]
#[cfg_attr(feature = "schemars", schemars(rename = "PtpRole"))]
pub enum Role {
    /// Switch that adds the residence time of Sync messages.
    #[default]
    Transparent,
    // Sends time, unless a better clock is active.
    /// Host that distributes time.
    Grandmaster,
    /// Host that synchronises its clock.
    Slave,
    /// Host that measures like a slave, but does not adjust its clock.
    Monitor,
}

impl Role {
    /// Returns the name of the role in messages to the user.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Grandmaster => "grandmaster",
            Self::Slave => "slave",
            Self::Transparent => "transparent clock",
            Self::Monitor => "monitor",
        }
    }
}
