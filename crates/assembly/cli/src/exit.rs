//! Exit codes, and how a failure is said (docs: the outward contract).

use std::fmt::Display;
use std::process::ExitCode;

use timeloom_guest::{ControlError, GuestError};

/// Why a command ended without having done what was asked.
pub(crate) struct Failure {
    code: u8,
    message: String,
}

impl Failure {
    /// The run failed: a guest, a plant, a peer, a check.
    pub(crate) fn run(message: impl Display) -> Self {
        Self {
            code: 1,
            message: message.to_string(),
        }
    }

    /// The user's mistake: arguments or scenario.
    pub(crate) fn usage(message: impl Display) -> Self {
        Self {
            code: 2,
            message: message.to_string(),
        }
    }

    /// This machine cannot do it.
    pub(crate) fn machine(message: impl Display) -> Self {
        Self {
            code: 3,
            message: format!("{message}\n(`timeloom doctor` says what this machine can do)"),
        }
    }

    /// Says it on stderr.
    pub(crate) fn report(self) -> ExitCode {
        eprintln!("timeloom: {}", self.message);
        ExitCode::from(self.code)
    }
}

impl From<GuestError> for Failure {
    fn from(error: GuestError) -> Self {
        match error {
            GuestError::Usage(_) | GuestError::NoProgram { .. } => Self::usage(error),
            GuestError::Unsupported(_) => Self::machine(error),
            GuestError::System { .. } => Self::run(error),
        }
    }
}

impl From<ControlError> for Failure {
    fn from(error: ControlError) -> Self {
        match error {
            ControlError::NoSession { .. } => Self::usage(error),
            ControlError::Refused(_) => Self::run(error),
        }
    }
}
