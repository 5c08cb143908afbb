//! Exit codes and the output of failures, common to `timeloom` and its related programs.
//!
//! | code | cause |
//! |---|---|
//! | 0 | none: the request was completed |
//! | 1 | the run: a guest, a plant, a peer or a check failed |
//! | 2 | the user: arguments or scenario |
//! | 3 | this machine: it lacks a feature |
//! | 4 | this machine: the run reached its end, but is not to be trusted |
//! | 5 | a program: two runs of a scenario agree in all but the text that it printed |
//!
//! This module assigns a code to every error of the libraries that it uses. An error of a program
//! itself gets its code where it is declared.

mod output;

use std::fmt::{self, Display};
use std::io::IsTerminal;
use std::process::ExitCode;

use crate::RunError;
use timeloom_guest::{ControlError, GuestError};
use timeloom_ptp_io::PtpError;
use timeloom_results::ResultsError;

pub use crate::{note, say};
pub use output::{note_in_colours, note_line, note_over, say_line, try_say};

/// Exit code for a run that reached its end although this machine was too slow for it. Its checks
/// have no meaning, whether they passed or failed.
pub const UNTRUSTED: u8 = 4;

/// Exit code for two runs of a scenario that agree in every signal, every event and the time of
/// every printed line, but not in the text of the lines.
pub const TEXTS_DIFFER: u8 = 5;

/// Error because of which a command did not complete its request.
#[derive(Debug)]
pub struct Failure {
    code: u8,
    message: String,
    in_colours: bool,
}

impl Failure {
    /// Creates a failure of the run: a guest, a plant, a peer or a check failed.
    pub fn run(message: impl Display) -> Self {
        Self {
            code: 1,
            message: message.to_string(),
            in_colours: false,
        }
    }

    /// Creates a failure for a mistake of the user, in arguments or scenario.
    pub fn usage(message: impl Display) -> Self {
        Self {
            code: 2,
            message: message.to_string(),
            in_colours: false,
        }
    }

    /// Creates a failure for a mistake of the user. Timeloom has already coloured the message.
    pub fn usage_in_colours(message: impl Display) -> Self {
        Self {
            in_colours: true,
            ..Self::usage(message)
        }
    }

    /// Creates a failure because this machine lacks a feature.
    pub fn machine(message: impl Display) -> Self {
        Self {
            code: 3,
            message: format!("{message}\n(`timeloom doctor` says what this machine can do)"),
            in_colours: false,
        }
    }

    /// Creates a failure because the program that does the work is not on this machine. The message
    /// must state how to install that program.
    pub fn not_built(message: impl Display) -> Self {
        Self {
            code: 3,
            message: message.to_string(),
            in_colours: false,
        }
    }

    /// Prints the failure on stderr, and returns its exit code.
    pub fn report(self) -> ExitCode {
        match self.in_colours {
            true => note_in_colours(&format!("timeloom: {}", self.message)),
            false => note_line(format_args!("timeloom: {}", self.message)),
        }
        ExitCode::from(self.code)
    }
}

/// Formats the message without its category, for use within another message, such as `clap`'s
/// message about an argument.
impl Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for Failure {}

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
            ControlError::NoSession { .. } | ControlError::Directory(_) => Self::usage(error),
            ControlError::Silent { .. } | ControlError::Refused(_) => Self::run(error),
        }
    }
}

impl From<RunError> for Failure {
    fn from(error: RunError) -> Self {
        match error {
            RunError::Guest(error) => error.into(),
            RunError::Fabric(error) => Self::machine(format!("building the network: {error}")),
            RunError::Plan(_) => Self::usage(error),
            RunError::Results(ResultsError::RunThere(_)) => Self::usage(error),
            RunError::Mistakes(errors) => {
                Self::usage(errors.render(std::io::stderr().is_terminal()))
            }
            RunError::Results(_) | RunError::Start(_) => Self::run(error),
        }
    }
}

impl From<PtpError> for Failure {
    fn from(error: PtpError) -> Self {
        match error {
            PtpError::Usage(_) => Self::usage(error),
            PtpError::Unsupported(_) => Self::machine(error),
            PtpError::System { .. } | PtpError::File { .. } => Self::run(error),
        }
    }
}
